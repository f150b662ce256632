/**
 * The daemon's side of a sandbox's agent: one control connection with its requests and events, made again when it
 * breaks, and connections of their own for files and ports. What an agent says is checked: it lives in the sandbox.
 */

import { rmSync } from "node:fs";
import type { Socket } from "node:net";
import { constants } from "node:os";
import { join } from "node:path";
import { keepLast } from "../../../base/bounded-map.ts";
import { unlessAborted } from "../../../base/concurrency/waits.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { ExecSpec } from "../../../core/ports/runtime.ts";
import type { Ancestry } from "../../../protocols/egress-control.ts";
import { chunkLength, type Frame, FrameReader, FrameWriter, Type } from "../../../protocols/guest-frames.ts";
import { parseExit } from "../../../protocols/output-journal.ts";
import type { FileSession } from "../files/file-session.ts";
import { commandOf } from "../machines/ancestry.ts";
import { journalEnd, readInfo } from "../machines/journal.ts";
import { JournalBudget } from "../machines/journal-budget.ts";
import { isTerminalSize } from "../machines/plan.ts";
import { LinuxProcess } from "../machines/process.ts";
import { Channel, dial, openFiles } from "./channel.ts";
import { dialAnswer } from "./dial-answer.ts";
import { errnoOf } from "./failure.ts";

export interface AgentOptions {
  /** unix socket that the agent listens on */
  socket: string;
  /** folder of its journals */
  journal: string;
  /** how much output of a command is kept unless its caller says otherwise, in bytes */
  outputLimit: number;
  /** how much output of all commands together is kept, in bytes */
  journalLimit: number;
}

const flags = { pty: 1, stdin: 2, keep: 4 } as const;
const lastSignal = 64;
/** WIRE_SIGNAL_ALONE */
const signalAlone = 0x100;
/** ended commands that are remembered without looking into their journal */
const remembered = 256;

export class Agent {
  readonly journal: string;
  readonly #options: AgentOptions;
  readonly #running = new Map<string, LinuxProcess>();
  readonly #ended = new Map<string, LinuxProcess>();
  readonly #budget: JournalBudget;
  /** ends each connection for files or to a port */
  readonly #connections = new Set<(reason: Error) => void>();
  #channel: Channel | undefined;
  /** set while its machine is frozen: why nothing can be asked */
  #paused: SandkeepError | undefined;
  /** events that have come while it is asked which commands run */
  #early: Frame[] | undefined;
  /** a connection that a frozen agent has not accepted, and that closes when the agent dies */
  #sentinel: Socket | undefined;
  #closing = false;
  /** whether its machine is being killed, so that the end of the connection needs no explanation; and whether it has ended */
  #isEnding = false;
  #hasEnded = false;
  #isGone = false;
  #gone: () => void = () => {};

  constructor(options: AgentOptions) {
    this.#options = options;
    this.journal = options.journal;
    this.#budget = new JournalBudget({
      directory: options.journal,
      most: options.journalLimit,
      isRunning: (command) => this.#running.has(command),
      isRead: (command) => (this.#running.get(command)?.readers.count ?? 0) > 0,
    });
  }

  /** calls back once when the agent is gone; at once if it is gone already */
  whenGone(call: () => void): void {
    this.#gone = call;
    if (this.#isGone) call();
  }

  /** connects and asks which commands run; nothing has run on a new machine */
  async open({ isNew = false } = {}): Promise<void> {
    const channel = await Channel.open(this.#options.socket, "the sandbox", {
      event: (frame) => this.#event(frame),
      closed: () => this.#closed(),
    });
    this.#channel = channel;
    if (isNew) return;
    await this.#learn(channel);
    this.#budget.recount();
  }

  /** for a machine that an earlier daemon has frozen: only notices when the agent is gone */
  async openPaused(): Promise<void> {
    this.pause();
    const socket = await dial(this.#options.socket, "the sandbox");
    this.#sentinel = socket;
    socket.on("error", () => undefined);
    socket.once("close", () => {
      if (this.#sentinel === socket) this.#closed();
    });
  }

  /** the machine is frozen: everything that waits for the agent ends with an error, and nothing new is asked */
  pause(): void {
    const reason = machinePaused();
    this.#paused = reason;
    for (const process of this.#running.values()) process.pause(reason);
    this.#channel?.interrupt(reason);
    for (const end of this.#connections) end(reason);
    this.#connections.clear();
  }

  /** the machine goes on; throws if the agent does not answer */
  async resume(): Promise<void> {
    if (!this.#channel) await this.open();
    this.#paused = undefined;
    this.#dropSentinel();
    for (const process of this.#running.values()) {
      process.pause(undefined);
      process.readers.renew();
    }
  }

  /** disconnects from the agent, which keeps running */
  close(): void {
    this.#closing = true;
    this.#dropSentinel();
    this.#channel?.close();
    const reason = new SandkeepError("gone", "Cannot follow the command: the runtime was closed");
    for (const process of this.#running.values()) process.release(reason);
    this.#running.clear();
  }

  /** its machine is being killed, or lives on because that failed */
  expectEnd(isExpected: boolean): void {
    this.#isEnding = isExpected;
    if (!isExpected && this.#hasEnded) this.#closed();
    this.#hasEnded = false;
  }

  /** the machine has ended, and every command with it */
  end(): void {
    this.#closing = true;
    this.#dropSentinel();
    this.#channel?.close();
    for (const process of this.#running.values()) {
      const exit = unlessUnreadable(() => readInfo(this.journal, process.id))?.exit;
      if (exit) process.finished(exit);
      else process.lost(machineGone(), unlessUnreadable(() => journalEnd(this.journal, process.id)) ?? 0);
    }
    this.#running.clear();
  }

  async exec(spec: ExecSpec, env: Record<string, string>): Promise<LinuxProcess> {
    // Of earlier commands the agent knows, too.
    if (this.#running.has(spec.id) || this.#ended.has(spec.id)) {
      throw new SandkeepError("exists", `Cannot run command "${spec.id}": its id was used before`);
    }
    const process = new LinuxProcess(this, spec.id, spec.outputLimit ?? this.#options.outputLimit);
    this.#running.set(spec.id, process);
    try {
      const answer = await this.#request(Type.exec, execPayload(spec, env, this.#options.outputLimit));
      return process.started(answer.u32(), Date.now());
    } catch (error) {
      this.#running.delete(spec.id);
      if (error instanceof SandkeepError) {
        throw new SandkeepError(error.code, `Cannot run "${spec.argv[0] ?? ""}": ${error.message}`, {
          cause: error,
          ...(error.about && { about: error.about }),
        });
      }
      throw error;
    }
  }

  /** runs a program that does nothing, without keeping its output: afterwards the next command finds its files in memory */
  async rehearse({ user, cwd }: { user: string; cwd: string }): Promise<void> {
    const id = "rehearsal";
    // an image need not have one
    const process = await this.exec({ id, argv: ["true"], user, cwd }, {}).catch(() => undefined);
    await process?.exited.catch(() => undefined);
    this.#ended.delete(id);
    rmSync(join(this.journal, `${id}.info`), { force: true });
  }

  /** a command that was started here at any time */
  process(id: string): LinuxProcess | undefined {
    const known = this.#running.get(id) ?? this.#ended.get(id);
    if (known) return known;
    const info = readInfo(this.journal, id);
    if (!info) return undefined;
    const process = this.#known(id).started(info.pid, info.startedAt);
    if (info.exit) process.finished(info.exit);
    else if (this.#paused) process.pause(this.#paused);
    else process.lost(machineGone(), journalEnd(this.journal, id));
    return process;
  }

  processes(): LinuxProcess[] {
    return [...this.#running.values()].filter((process) => process.pid > 0);
  }

  /** id of the command that a process inside belongs to */
  commandOf(ancestry: Ancestry): string | undefined {
    return commandOf(ancestry, this.#running.values(), this.#ended.values());
  }

  async write(command: string, data: Uint8Array): Promise<void> {
    for (let at = 0; at < data.length || at === 0; at += chunkLength) {
      const piece = data.subarray(at, at + chunkLength);
      await this.#request(Type.stdin, new FrameWriter().str(command).bytes(piece));
    }
  }

  /**
   * Writes at an offset of what was written before, and skips what the command was sent already. Resolves with how many
   * bytes its pipe has taken in all, or when the signal aborts, with what it has taken until then.
   */
  async feed(command: string, data: Uint8Array, offset: number, signal: AbortSignal): Promise<number> {
    let given = offset;
    for (let at = 0; at < data.length && !signal.aborted; at += chunkLength) {
      const piece = data.subarray(at, at + chunkLength);
      const request = new FrameWriter()
        .str(command)
        .u64(offset + at)
        .bytes(piece);
      const taken = this.#counted(Type.stdinAt, request);
      given = (await unlessAborted(taken, signal)) ?? given;
    }
    return signal.aborted || data.length === 0 ? this.given(command) : given;
  }

  /** how many bytes of standard input the command's pipe has taken */
  async given(command: string): Promise<number> {
    return this.#counted(Type.stdinGiven, new FrameWriter().str(command));
  }

  /** lets the agent delete output before an offset when the journal is full; Infinity for all output */
  spare(command: string, offset: number): void {
    const upTo = Number.isFinite(offset) ? offset : Number.MAX_SAFE_INTEGER;
    // An agent of an older release deletes the oldest output in any case. One that is paused is told when it goes on.
    this.#request(Type.spare, new FrameWriter().str(command).u64(upTo)).catch(() => undefined);
  }

  /** how many filters of system calls programs may have from now on */
  async limitFilters(most: number): Promise<void> {
    await this.#request(Type.filters, new FrameWriter().u32(most));
  }

  async closeStdin(command: string): Promise<void> {
    await this.#request(Type.stdinClose, new FrameWriter().str(command));
  }

  async signal(command: string, signal: number, alone = false): Promise<void> {
    if (!Number.isInteger(signal) || signal < 0 || signal > lastSignal) {
      throw new SandkeepError("invalid", `Cannot send signal ${signal}: there is no such signal`);
    }
    const send = (flag: number) => this.#request(Type.signal, new FrameWriter().str(command).u32(signal + flag));
    await send(alone ? signalAlone : 0).catch((error) => {
      // An agent from before the flag takes it for a signal that does not exist. It can only signal the whole group.
      if (alone && errnoOf(error) === constants.errno.EINVAL) return send(0);
      throw error;
    });
  }

  async resize(command: string, size: { rows: number; columns: number }): Promise<void> {
    if (!isTerminalSize(size))
      throw new SandkeepError("invalid", `Cannot resize: ${size.rows} x ${size.columns} is not a valid size`);
    await this.#request(Type.resize, new FrameWriter().str(command).u16(size.rows).u16(size.columns));
  }

  /** a file session as the given user */
  files(user: string): Promise<FileSession> {
    return openFiles(this.#options.socket, "the sandbox", Type.files, user, (session) => {
      session.whenClosed(this.#connected((reason) => session.close(reason)));
    });
  }

  /** a byte stream to a port inside */
  async connect(port: number): Promise<Socket> {
    const socket = await dial(this.#options.socket, "the sandbox");
    socket.once(
      "close",
      this.#connected(() => socket.destroy()),
    );
    socket.write(new FrameWriter().u16(port).frame(Type.dial, 1));
    try {
      await dialAnswer(socket);
      return socket;
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }

  /** a request that is answered with how many bytes of standard input were taken */
  async #counted(type: number, payload: FrameWriter): Promise<number> {
    try {
      return (await this.#request(type, payload)).u64();
    } catch (error) {
      throw tooOld(error);
    }
  }

  /** a command of which only the journal tells: its limit is taken to be the usual one */
  #known(id: string): LinuxProcess {
    return new LinuxProcess(this, id, this.#options.outputLimit);
  }

  /** registers how to end a connection; returns how to forget it */
  #connected(end: (reason: Error) => void): () => void {
    this.#connections.add(end);
    return () => this.#connections.delete(end);
  }

  #dropSentinel(): void {
    const socket = this.#sentinel;
    this.#sentinel = undefined;
    socket?.destroy();
  }

  #request(type: number, payload?: FrameWriter): Promise<FrameReader> {
    if (this.#paused) return Promise.reject(this.#paused);
    if (!this.#channel) return Promise.reject(machineGone());
    return this.#channel.request(type, payload);
  }

  /**
   * what runs now; of what ran before the connection was made, the journal tells the end. Events that come with the answer
   * are about commands that it names, and wait until those are known
   */
  async #learn(channel: Channel): Promise<void> {
    const early: Frame[] = [];
    this.#early = early;
    try {
      await this.#learnCommands(channel);
    } finally {
      if (this.#early === early) this.#early = undefined;
    }
    for (const frame of early) this.#event(frame);
  }

  async #learnCommands(channel: Channel): Promise<void> {
    const answer = await channel.request(Type.commands);
    const alive = new Set<string>();
    for (let count = answer.u32(); count > 0; count--) {
      const id = answer.str();
      const pid = answer.u32();
      alive.add(id);
      const process = this.#running.get(id) ?? this.#known(id);
      const known = process.pid === 0 ? unlessUnreadable(() => readInfo(this.journal, id)) : undefined;
      if (process.pid === 0) process.started(pid, known?.startedAt ?? Date.now());
      process.grew(answer.u64());
      this.#running.set(id, process);
      process.readers.renew();
    }
    for (const [id, process] of this.#running) {
      if (alive.has(id) || process.pid === 0) continue;
      const exit = unlessUnreadable(() => readInfo(this.journal, id))?.exit;
      if (exit) {
        this.#finish(process, exit);
      } else {
        process.lost(new SandkeepError("internal", "Cannot tell how the command ended: its journal does not say"), 0);
        this.#running.delete(id);
      }
    }
  }

  #event(frame: Frame): void {
    if (this.#early) return void this.#early.push(frame);
    const r = new FrameReader(frame.payload);
    const process = this.#running.get(r.str());
    if (!process) return;
    const before = process.end;
    if (frame.type === Type.grew) process.grew(r.u64());
    if (frame.type === Type.exit) this.#finish(process, { ...parseExit(r), exitedAt: Date.now() });
    this.#budget.grew(process.end - before);
  }

  #finish(process: LinuxProcess, exit: Parameters<LinuxProcess["finished"]>[0]): void {
    process.finished(exit);
    this.#running.delete(process.id);
    this.#ended.set(process.id, process);
    keepLast(this.#ended, remembered);
  }

  /** the agent closed the connection or is gone: connecting again shows which */
  #closed(): void {
    this.#channel = undefined;
    this.#hasEnded = true;
    if (this.#closing || this.#isEnding) return;
    (this.#paused ? this.openPaused() : this.open()).catch(() => {
      if (this.#closing) return;
      this.end();
      this.#isGone = true;
      this.#gone();
    });
  }
}

/** undefined where the store has failed: machines live and end all the same */
function unlessUnreadable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** An agent is of the release whose launcher started it, which outlives the daemon. */
function tooOld(error: unknown): unknown {
  if (errnoOf(error) !== constants.errno.ENOSYS) return error;
  const message = "Cannot write to the command's standard input: an older release started the sandbox";
  return new SandkeepError("unsupported", message, { cause: error });
}

/** why a paused machine does nothing; about its session, which has the same id */
export function machinePaused(): SandkeepError {
  const message = "Cannot use the sandbox: it is paused, and goes on when it is resumed";
  return new SandkeepError("conflict", message, { about: { kind: "session", state: "paused" } });
}

function machineGone(): SandkeepError {
  return new SandkeepError("gone", "The machine has stopped");
}

function execPayload(spec: ExecSpec, env: Record<string, string>, outputLimit: number): FrameWriter {
  const bits = (spec.pty ? flags.pty : 0) | (spec.stdin ? flags.stdin : 0) | flags.keep;
  const variables = Object.entries({ ...env, ...spec.env }).map(([name, value]) => `${name}=${value}`);
  return new FrameWriter()
    .str(spec.id)
    .u32(bits)
    .u16(spec.pty?.rows ?? 0)
    .u16(spec.pty?.columns ?? 0)
    .u32(spec.timeLimit === undefined ? 0 : Math.max(1, Math.ceil(spec.timeLimit)))
    .u64(spec.outputLimit ?? outputLimit)
    .str(spec.user ?? "")
    .list(spec.groups ?? [])
    .str(spec.cwd ?? "")
    .list(spec.argv)
    .list(variables);
}
