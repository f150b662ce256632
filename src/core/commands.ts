/** Commands: started in a running session, on record, their output readable for as long as their session is known. */

import type { Context } from "./context.ts";
import { SandkeepError } from "./errors.ts";
import { resolvePath } from "./files.ts";
import { isOver } from "./lifecycle.ts";
import type { ExitStatus, OutputChunk, OutputOptions, Process } from "./runtime.ts";
import type { Caller, Command, Session } from "./sandbox.ts";
import type { Sessions } from "./sessions.ts";

export interface RunSpec {
  name: string;
  args: string[];
  /** default the session's */
  cwd?: string | undefined;
  env?: Record<string, string> | undefined;
  /** as root */
  sudo?: boolean | undefined;
  /** default the session's */
  user?: string | undefined;
  timeLimit?: number | undefined;
  pty?: { rows: number; columns: number } | undefined;
  stdin?: boolean | undefined;
}

const kill = 9;

export class Commands {
  readonly #context: Context;
  readonly #sessions: Sessions;

  constructor(context: Context, sessions: Sessions) {
    this.#context = context;
    this.#sessions = sessions;
  }

  /** resolves when the program runs and is on record */
  async run(caller: Caller, sessionId: string, spec: RunSpec): Promise<Command> {
    const { session, machine } = await this.#sessions.running(caller, sessionId);
    const id = this.#context.ids.command();
    const cwd = resolvePath(session.cwd, undefined, spec.cwd ?? ".");
    const starting = machine.exec({
      id,
      argv: [spec.name, ...spec.args],
      cwd,
      env: { ...session.env, ...spec.env },
      user: spec.sudo ? "root" : (spec.user ?? session.user),
      ...(spec.timeLimit !== undefined && { timeLimit: spec.timeLimit }),
      ...(spec.pty && { pty: spec.pty }),
      ...(spec.stdin && { stdin: true }),
    });
    const { name, args } = spec;
    const { store, now } = this.#context;
    const command: Command = { id, sessionId, teamId: session.teamId, name, args, cwd, startedAt: now() };
    // the disk writes the record while the program starts
    const [started, recorded] = await Promise.allSettled([starting, store.insertCommand(command)]);
    if (started.status === "rejected") {
      if (recorded.status === "fulfilled") await store.deleteCommand(id);
      throw started.reason;
    }
    if (recorded.status === "rejected") {
      await started.value.signal(kill).catch(() => undefined);
      throw recorded.reason;
    }
    this.#follow(command, started.value);
    return command;
  }

  async get(caller: Caller, sessionId: string, id: string): Promise<Command> {
    const command = await this.#context.store.getCommand(id);
    if (command?.teamId !== caller.teamId) throw notFound(id);
    // a client that resumed asks for its old command under the new session: the same sandbox is near enough
    if (command.sessionId !== sessionId && !(await this.#sameSandbox(caller, command.sessionId, sessionId))) {
      throw notFound(id);
    }
    return this.#withExit(command);
  }

  async list(caller: Caller, sessionId: string): Promise<Command[]> {
    await this.#sessions.get(caller, sessionId);
    return (await this.#context.store.listCommands(sessionId)).map((command) => this.#withExit(command));
  }

  /** resolves once it has ended, also when its session ends */
  async wait(caller: Caller, sessionId: string, id: string, signal?: AbortSignal): Promise<Command> {
    for (;;) {
      const command = await this.get(caller, sessionId, id);
      if (command.exitCode !== undefined) return command;
      const exited = this.#process(command)?.exited.catch(() => undefined);
      if (exited) await unless(signal, exited);
      signal?.throwIfAborted();
      const now = await this.get(caller, sessionId, id);
      if (now.exitCode !== undefined) return now;
      const { state } = await this.#sessions.get(caller, command.sessionId);
      if (isOver(state)) return this.get(caller, sessionId, id);
      // its session is ending: the store has the last word in a moment
      await later();
    }
  }

  async output(
    caller: Caller,
    sessionId: string,
    id: string,
    options?: OutputOptions,
  ): Promise<AsyncIterable<OutputChunk>> {
    const command = await this.get(caller, sessionId, id);
    return this.#context.runtime.output(command.sessionId, command.id, options);
  }

  async kill(caller: Caller, sessionId: string, id: string, signal: number): Promise<Command> {
    const command = await this.#alive(caller, sessionId, id);
    // one that ended meanwhile is as dead as was wanted
    await this.#process(command)
      ?.signal(signal)
      .catch((error) => {
        if (!(error instanceof SandkeepError && error.code === "gone")) throw error;
      });
    return this.get(caller, sessionId, id);
  }

  async write(caller: Caller, sessionId: string, id: string, data: Uint8Array): Promise<void> {
    await this.#mustProcess(await this.#alive(caller, sessionId, id)).write(data);
  }

  async closeStdin(caller: Caller, sessionId: string, id: string): Promise<void> {
    await this.#mustProcess(await this.#alive(caller, sessionId, id)).closeStdin();
  }

  async resize(caller: Caller, sessionId: string, id: string, size: { rows: number; columns: number }): Promise<void> {
    await this.#mustProcess(await this.#alive(caller, sessionId, id)).resize(size);
  }

  /** after a restart: what runs is followed again, what ended meanwhile is written down */
  async adopt(session: Session): Promise<void> {
    for (const command of await this.#context.store.openCommands(session.id)) {
      const process = this.#process(command);
      if (process) this.#follow(command, process);
      // it never ran, so nobody was told of it
      else await this.#context.store.deleteCommand(command.id);
    }
  }

  /** the session must run; the command may have ended */
  async #alive(caller: Caller, sessionId: string, id: string): Promise<Command> {
    const command = await this.get(caller, sessionId, id);
    await this.#sessions.running(caller, command.sessionId);
    return command;
  }

  /** writes the end down when it comes */
  #follow(command: Command, process: Process): void {
    process.exited
      // whoever waits for the end is answered first: until it is stored, the journal has it
      .then((exit) => later().then(() => this.#context.store.endCommand(command.id, endOf(exit))))
      // a machine that is gone takes its commands along: its session's end says so
      .catch((error) => {
        if (!(error instanceof SandkeepError && error.code === "gone")) this.#context.trouble(error);
      });
  }

  #process(command: Command): Process | undefined {
    return this.#context.runtime.machine(command.sessionId)?.process(command.id);
  }

  #mustProcess(command: Command): Process {
    const process = this.#process(command);
    if (!process) throw new SandkeepError("gone", `Command "${command.id}" has ended`);
    return process;
  }

  /** the runtime knows an end a moment before the store does */
  #withExit(command: Command): Command {
    if (command.exitCode !== undefined) return command;
    const exit = this.#process(command)?.exit;
    return exit ? { ...command, ...endOf(exit) } : command;
  }

  async #sameSandbox(caller: Caller, one: string, other: string): Promise<boolean> {
    const [first, second] = await Promise.all([this.#sessions.get(caller, one), this.#sessions.get(caller, other)]);
    return first.sandboxId === second.sandboxId;
  }
}

function later(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 10));
}

function endOf(exit: ExitStatus): Pick<Command, "exitCode" | "endedAt" | "endCause"> {
  return {
    exitCode: exit.code,
    endedAt: exit.exitedAt,
    ...(exit.outOfMemory ? { endCause: "out-of-memory" as const } : exit.timedOut && { endCause: "timeout" as const }),
  };
}

function notFound(id: string): SandkeepError {
  return new SandkeepError("not-found", `Command "${id}" not found.`);
}

/** the promise, or earlier when the signal aborts */
function unless<T>(signal: AbortSignal | undefined, promise: Promise<T>): Promise<T | undefined> {
  if (!signal || signal.aborted) return signal ? Promise.resolve(undefined) : promise;
  return Promise.race([
    promise,
    new Promise<undefined>((resolve) => signal.addEventListener("abort", () => resolve(undefined), { once: true })),
  ]);
}
