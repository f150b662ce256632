/**
 * Commands: they start in a running session and are stored; their output stays readable while their session is known.
 */

import { after, unlessAborted } from "../../base/concurrency/waits.ts";
import type { Context } from "../context.ts";
import { resolvePath } from "../files/files.ts";
import { trustEnvironment, trusted } from "../images/trust.ts";
import { isSandkeepError, SandkeepError } from "../model/errors.ts";
import type { Caller, Command, Owner, Session } from "../model/sandbox.ts";
import type { ExitStatus, Machine, OutputChunk, OutputOptions, Process } from "../ports/runtime.ts";
import type { CommandQuery, CommandTally, Page, Parts } from "../ports/store.ts";
import { openEnvironment } from "../sandboxes/environments.ts";
import type { Activity } from "../sessions/activity.ts";
import { notRunning } from "../sessions/end.ts";
import type { Running, Sessions } from "../sessions/sessions.ts";
import { isOver } from "../sessions/states.ts";
import { imageCommand, imageOf } from "./image-command.ts";
import { userIds } from "./user-ids.ts";

export interface RunSpec {
  /** default the program of the image; `args`, if there are any, replace the image's own */
  name?: string | undefined;
  args: string[];
  /** default the session's */
  cwd?: string | undefined;
  /** the caller's own; their values may be secrets */
  env?: Record<string, string> | undefined;
  /** variables that tell programs about their sandbox; `env` may replace them */
  facts?: Record<string, string> | undefined;
  /** as root */
  sudo?: boolean | undefined;
  /** default the session's */
  user?: string | undefined;
  timeLimit?: number | undefined;
  pty?: { rows: number; columns: number } | undefined;
  stdin?: boolean | undefined;
}

/** What a caller writes to a command's standard input. */
export interface Input {
  data: Uint8Array;
  /** where the data begins, counted from the command's start; default: after everything sent before */
  offset?: number | undefined;
  /** whether this is the end of the input */
  close: boolean;
  /** longest to wait for the command to read, in ms */
  patience: number;
}

/** A command as the sandbox's kernel sees it. */
export interface CommandProcess {
  command: Command;
  /** process id inside the sandbox of its first process */
  pid: number;
  /** offset of the end of its output so far */
  end: number;
  exit?: ExitStatus;
}

/** How much of a command's standard input has arrived. */
export interface InputResult {
  command: Command;
  /** bytes that the command's pipe has accepted since the command's start */
  taken: number;
  /** whether these include all of the data */
  isTaken: boolean;
}

const kill = 9;
const terminate = 15;
/** how long a command may take to end after SIGTERM, in ms */
const patience = 3000;
/** most sessions that a list over all sessions reads */
const mostSessions = 1000;

/** how long to wait for a change of an ending session before reading its record again, in ms */
const longestChange = 1000;

export class Commands {
  readonly #context: Context;
  readonly #sessions: Sessions;
  readonly #activity: Activity;
  /** stored commands that this daemon follows: until their end is stored, no one else changes their records */
  readonly #followed = new Map<string, Command>();
  /** ends that are being stored */
  readonly #ending = new Set<Promise<unknown>>();

  constructor(context: Context, sessions: Sessions, activity: Activity) {
    this.#context = context;
    this.#sessions = sessions;
    this.#activity = activity;
  }

  /** resolves when the program runs and its record is stored */
  async run(caller: Caller, sessionId: string, spec: RunSpec): Promise<Command> {
    return this.#sessions.use(caller, sessionId, (running) => {
      for (const value of Object.values(spec.env ?? {})) this.#context.redact?.(value);
      return this.#run(running, spec);
    });
  }

  async get(caller: Caller, sessionId: string, id: string): Promise<Command> {
    const command = this.#followed.get(id) ?? (await this.#context.store.getCommand(id));
    if (command?.teamId !== caller.teamId) throw notFound(id);
    // after a resume, a client asks for its old command under the new session: accept any session of the same sandbox
    if (command.sessionId !== sessionId && !(await this.#sameSandbox(caller, command.sessionId, sessionId))) {
      throw notFound(id);
    }
    return this.#withExit(command);
  }

  /** by its id alone */
  async find(caller: Caller, id: string): Promise<Command> {
    const command = await this.#context.store.getCommand(id);
    if (command?.teamId !== caller.teamId) throw notFound(id);
    return this.#withExit(command);
  }

  /** the newest commands of a project's newest sessions, newest first */
  async recent(owner: Owner, limit: number): Promise<Command[]> {
    const found: Command[] = [];
    for (let cursor: string | undefined, read = 0; found.length < limit && read < mostSessions; ) {
      const page = await this.#sessions.list(owner, { order: "desc", limit: 100, ...(cursor && { cursor }) });
      for (const { id } of page.items) found.push(...(await this.list(owner, id)).toReversed());
      read += page.items.length;
      if (page.next === undefined) break;
      cursor = page.next;
    }
    return found.toSorted((one, other) => other.startedAt - one.startedAt).slice(0, limit);
  }

  /** how the command ended, as long as its output is kept */
  async exit(caller: Caller, id: string): Promise<ExitStatus | undefined> {
    const command = await this.find(caller, id);
    return (
      this.#process(command)?.exit ?? this.#context.runtime.command(command.sessionId, command.id)?.exit ?? undefined
    );
  }

  async list(caller: Caller, sessionId: string): Promise<Command[]> {
    await this.#sessions.get(caller, sessionId);
    return (await this.#context.store.listCommands(sessionId)).map((command) => this.#withExit(command));
  }

  /** in order of their start */
  async page(caller: Caller, sessionId: string, query: CommandQuery): Promise<Page<Command>> {
    await this.#sessions.get(caller, sessionId);
    const { items, ...rest } = await this.#context.store.pageCommands(sessionId, query);
    return { items: items.map((command) => this.#withExit(command)), ...rest };
  }

  /** how many began, ended and failed in each part of a time */
  async tally(caller: Caller, sessionId: string, parts: Parts): Promise<CommandTally> {
    await this.#sessions.get(caller, sessionId);
    return this.#context.store.tallyCommands(sessionId, parts);
  }

  /** the commands that run now */
  async running(caller: Caller, sessionId: string): Promise<CommandProcess[]> {
    await this.#sessions.get(caller, sessionId);
    const followed = [...this.#followed.values()].filter((command) => command.sessionId === sessionId);
    return followed.flatMap((command) => {
      const process = this.#process(command);
      return process && !process.exit ? [processOf(command, process)] : [];
    });
  }

  /** the process, running or ended; undefined once its machine is gone */
  async process(caller: Caller, sessionId: string, id: string): Promise<CommandProcess | undefined> {
    const command = await this.get(caller, sessionId, id);
    const process = this.#process(command);
    return process && processOf(command, process);
  }

  /** resolves when the command or its session has ended */
  async wait(caller: Caller, sessionId: string, id: string, signal?: AbortSignal): Promise<Command> {
    for (;;) {
      const changed = this.#context.events.changed(sessionId);
      const command = await this.get(caller, sessionId, id);
      if (command.exitCode !== undefined) return command;
      const exited = this.#process(command)?.exited.catch(() => undefined);
      const pausing = this.#context.runtime.machine(command.sessionId)?.pausing;
      if (exited) await unlessAborted(unlessAborted(exited, signal), pausing);
      signal?.throwIfAborted();
      const now = await this.get(caller, sessionId, id);
      if (now.exitCode !== undefined) return now;
      const session = await this.#sessions.get(caller, command.sessionId);
      if (isOver(session.state)) return this.get(caller, sessionId, id);
      if (pausing?.aborted) throw notRunning({ ...session, state: "paused" });
      // The session is ending: read the store again once the session or the command has changed.
      await unlessAborted(Promise.race([changed, after(longestChange)]), signal);
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

  /** signals the process group, or with `alone` only the first process */
  async kill(
    caller: Caller,
    sessionId: string,
    id: string,
    signal: number,
    options: { alone?: boolean } = {},
  ): Promise<Command> {
    const command = await this.#alive(caller, sessionId, id);
    // a command that has just ended needs no signal
    await this.#process(command)
      ?.signal(signal, options)
      .catch((error) => {
        if (!isSandkeepError(error, "gone")) throw error;
      });
    return this.get(caller, sessionId, id);
  }

  /** sends SIGTERM, and SIGKILL if the command does not end; resolves when it has ended */
  async cancel(caller: Caller, sessionId: string, id: string): Promise<Command> {
    const asked = await this.kill(caller, sessionId, id, terminate);
    if (asked.exitCode !== undefined) return asked;
    const grace = AbortSignal.timeout(patience);
    return this.wait(caller, sessionId, id, grace).catch(async (error) => {
      if (!grace.aborted) throw error;
      await this.kill(caller, sessionId, id, kill);
      return this.wait(caller, sessionId, id);
    });
  }

  async write(caller: Caller, sessionId: string, id: string, data: Uint8Array): Promise<void> {
    await this.#mustProcess(await this.#alive(caller, sessionId, id)).write(data);
  }

  /** writes after everything that was sent before; false if the command does not read it within `patience` ms */
  async append(caller: Caller, sessionId: string, id: string, data: Uint8Array, patience: number): Promise<boolean> {
    return this.#input(caller, sessionId, id, async (process) => {
      const timeout = AbortSignal.timeout(patience);
      await unlessAborted(process.write(data), timeout);
      return !timeout.aborted;
    });
  }

  /**
   * Writes to standard input at an offset, so that a caller may repeat a write; without an offset, appends. Then closes
   * the input if `close` is set. If the command does not read within `patience` ms, the input stays open.
   */
  async feed(caller: Caller, sessionId: string, id: string, input: Input): Promise<InputResult> {
    return this.#input(caller, sessionId, id, async (process, command) => {
      const timeout = AbortSignal.timeout(input.patience);
      const { data, offset } = input;
      if (offset === undefined) await unlessAborted(process.write(data), timeout);
      const taken =
        offset === undefined
          ? await process.given().catch(unlessGone(data.length))
          : await process.feed(data, offset, timeout);
      const isTaken = !timeout.aborted || (offset !== undefined && taken >= offset + data.length);
      if (input.close && isTaken) await process.closeStdin();
      return { command, taken, isTaken };
    });
  }

  /** uses a running command's standard input, and explains why it has none */
  async #input<T>(
    caller: Caller,
    sessionId: string,
    id: string,
    use: (process: Process, command: Command) => Promise<T>,
  ): Promise<T> {
    const command = await this.#alive(caller, sessionId, id);
    try {
      return await use(this.#mustProcess(command), command);
    } catch (error) {
      if (!isSandkeepError(error, "gone")) throw error;
      const { exitCode } = await this.get(caller, sessionId, id);
      if (exitCode !== undefined) throw error;
      const reason = "it was started without one, has closed it, or has read to its end";
      throw new SandkeepError("conflict", `Cannot write to the standard input of the command: ${reason}`, {
        cause: error,
        about: { kind: "command" },
      });
    }
  }

  async closeStdin(caller: Caller, sessionId: string, id: string): Promise<void> {
    await this.#mustProcess(await this.#alive(caller, sessionId, id)).closeStdin();
  }

  async resize(caller: Caller, sessionId: string, id: string, size: { rows: number; columns: number }): Promise<void> {
    await this.#mustProcess(await this.#alive(caller, sessionId, id)).resize(size);
  }

  /** after a restart: follows running commands again, and stores the ends of those that ended meanwhile */
  async adopt(session: Session): Promise<void> {
    for (const command of await this.#context.store.openCommands(session.id)) {
      const process = this.#process(command);
      if (process) this.#follow(command, process, session);
      // it never ran, so no caller knows of it
      else await this.#context.store.deleteCommand(command.id);
    }
  }

  /** resolves when the end of every ended command is stored */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#ending);
  }

  async #run({ session, machine }: Running, spec: RunSpec): Promise<Command> {
    await trusted(machine);
    const [name, ...args] =
      spec.name === undefined
        ? imageCommand(await imageOf(this.#context, machine), spec.args)
        : [spec.name, ...spec.args];
    const id = this.#context.ids.command();
    const cwd = resolvePath(session.cwd, undefined, spec.cwd ?? ".");
    const starting = machine.exec({
      id,
      argv: [name, ...args],
      cwd,
      env: {
        ...trustEnvironment(session.networkPolicy, this.#context),
        ...(spec.sudo && (await sudoEnvironment(machine, session.user))),
        ...openEnvironment(session.env, this.#context.seal),
        ...spec.facts,
        ...spec.env,
      },
      user: spec.sudo ? "root" : (spec.user ?? session.user),
      ...(spec.timeLimit !== undefined && { timeLimit: spec.timeLimit }),
      ...(spec.pty && { pty: spec.pty }),
      ...(spec.stdin && { stdin: true }),
    });
    const { store, now } = this.#context;
    const command: Command = { id, sessionId: session.id, teamId: session.teamId, name, args, cwd, startedAt: now() };
    // store the record while the program starts
    const [started, recorded] = await Promise.allSettled([starting, store.insertCommand(command)]);
    if (started.status === "rejected") {
      if (recorded.status === "fulfilled") await store.deleteCommand(id);
      throw started.reason;
    }
    if (recorded.status === "rejected") {
      await started.value.signal(kill).catch(() => undefined);
      throw recorded.reason;
    }
    const about = { sessionId: session.id, commandId: id, name };
    this.#context.events.publish(session.projectId, { type: "command.started", ...about });
    this.#follow(command, started.value, session);
    return command;
  }

  /** the session must run; the command may have ended */
  async #alive(caller: Caller, sessionId: string, id: string): Promise<Command> {
    const command = await this.get(caller, sessionId, id);
    await this.#sessions.running(caller, command.sessionId);
    return command;
  }

  /** stores the end when it comes; until then the session counts as in use */
  #follow(command: Command, process: Process, session: Session): void {
    this.#followed.set(command.id, command);
    process.exited
      .then((exit) => this.#end(command, session, exit))
      // a machine that is gone takes its commands along; the session's end records that
      .catch((error) => {
        if (!isSandkeepError(error, "gone")) this.#context.logError(error);
      })
      .finally(() => {
        this.#followed.delete(command.id);
        this.#activity.used(session);
      });
  }

  /** waits a moment before storing, so that callers who wait are answered first; the journal has the end until then */
  async #end({ id }: Command, session: Session, exit: ExitStatus): Promise<void> {
    const ending = later().then(() => this.#context.store.endCommand(id, endOf(exit)));
    this.#ending.add(ending);
    try {
      await ending;
      const about = { sessionId: session.id, commandId: id, exitCode: exit.code };
      this.#context.events.publish(session.projectId, { type: "command.ended", ...about });
    } finally {
      this.#ending.delete(ending);
    }
  }

  #process(command: Command): Process | undefined {
    return this.#context.runtime.machine(command.sessionId)?.process(command.id);
  }

  #mustProcess(command: Command): Process {
    const process = this.#process(command);
    if (!process) throw new SandkeepError("gone", `Command "${command.id}" has ended`);
    return process;
  }

  /** adds the exit that the runtime knows before the store does */
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

/** the variables that sudo sets about its caller; without ids for a user that the sandbox does not know */
async function sudoEnvironment(machine: Machine, user: string): Promise<Record<string, string>> {
  const ids = await userIds(machine, user).catch(() => undefined);
  const [name = user] = user.split(":", 1);
  return { SUDO_USER: name, ...(ids && { SUDO_UID: `${ids.uid}`, SUDO_GID: `${ids.gid}` }) };
}

function processOf(command: Command, { pid, end, exit }: Process): CommandProcess {
  return { command, pid, end, ...(exit && { exit }) };
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

/** the number, where a command ended after it took its input, as a shell does that was told to exit */
function unlessGone(taken: number): (error: unknown) => number {
  return (error) => {
    if (!isSandkeepError(error, "gone")) throw error;
    return taken;
  };
}
