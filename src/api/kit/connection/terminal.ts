/**
 * One terminal: a command with a pty, and its current connection, if any. On every wire, binary messages are input and
 * output. Each wire defines its own text messages and how it reports the exit.
 */

import { setMaxListeners } from "node:events";
import type { WebSocket } from "ws";
import type { RunSpec } from "../../../core/commands/commands.ts";
import type { Core } from "../../../core/core.ts";
import { isSandkeepError } from "../../../core/model/errors.ts";
import type { Caller, Command } from "../../../core/model/sandbox.ts";
import { closingReason } from "./websockets.ts";

export interface TerminalWire {
  core: Pick<Core, "commands">;
  /** how long a terminal outlives its connection, in ms */
  grace: number;
  /** ms since 1970 */
  clock: () => number;
  logError: (error: unknown) => void;
  /** parses a text message; throws when it is invalid */
  read(text: string): TerminalRequest;
  /** the text message that reports the exit code */
  exit(code: number): string;
  sentenceOf(error: unknown): string;
}

export type TerminalRequest = { type: "start"; spec: TerminalSpec } | { type: "resize"; cols: number; rows: number };
/** what the terminal runs; a size of 0 means the default size */
export type TerminalSpec = Omit<RunSpec, "pty" | "stdin"> & { cols: number; rows: number };

const closing = { done: 1000, replaced: 4000, invalid: 1003, refused: 1008, failed: 1011 };
const hangup = 1;
/** bytes of waiting input above which the connection is paused */
const mostWaiting = 256 << 10;

export class Terminal {
  readonly #wire: TerminalWire;
  readonly #caller: Caller;
  readonly #sessionId: string;
  #connection: WebSocket | undefined;
  /** aborted when the connection closes or another one replaces it */
  #gone = new AbortController();
  #command: Promise<Command> | undefined;
  /** bytes of output sent so far, over all connections */
  #sent = 0;
  #exitCode: number | undefined;
  #endedAt: number | undefined;
  #grace: NodeJS.Timeout | undefined;

  constructor(wire: TerminalWire, caller: Caller, sessionId: string) {
    this.#wire = wire;
    this.#caller = caller;
    this.#sessionId = sessionId;
  }

  get isBegun(): boolean {
    return this.#command !== undefined;
  }

  /** whether it ended so long ago that no client will reconnect to read the exit code */
  isOver(now: number): boolean {
    return this.#endedAt !== undefined && now - this.#endedAt > this.#wire.grace;
  }

  /** uses this connection from now on; an earlier one is closed */
  connect(connection: WebSocket): void {
    const { ended } = this.#caller;
    const revoke = () => connection.close(closing.refused, "the key that opened this terminal is no longer valid");
    if (ended?.aborted) {
      revoke();
      return;
    }
    if (ended) {
      setMaxListeners(0, ended);
      ended.addEventListener("abort", revoke, { once: true });
      connection.on("close", () => ended.removeEventListener("abort", revoke));
    }
    this.#gone.abort();
    this.#connection?.close(closing.replaced, "connected again elsewhere");
    this.#connection = connection;
    this.#gone = new AbortController();
    clearTimeout(this.#grace);
    const input = new TerminalInput(connection, (data) => this.#write(data));
    connection.on("message", (data: Buffer, isBinary: boolean) => {
      if (isBinary) input.push(data);
      else this.#obey(connection, data);
    });
    connection.on("error", () => connection.terminate());
    connection.on("close", () => this.#disconnected(connection));
    if (this.#command) void this.#show(connection);
  }

  /** resolves when the program runs, with or without a connection */
  start({ cols, rows, ...spec }: TerminalSpec): Promise<Command> {
    const pty = { rows: rows || 24, columns: cols || 80 };
    this.#command = this.#wire.core.commands.run(this.#caller, this.#sessionId, { ...spec, pty, stdin: true });
    if (!this.#connection) this.#awaitConnection();
    return this.#command;
  }

  async resize({ cols, rows }: { cols: number; rows: number }): Promise<void> {
    if (cols === 0 || rows === 0) return;
    const command = await this.#command;
    if (!command) return;
    await this.#wire.core.commands.resize(this.#caller, this.#sessionId, command.id, { rows, columns: cols });
  }

  #disconnected(connection: WebSocket): void {
    if (this.#connection !== connection) return;
    this.#gone.abort();
    this.#connection = undefined;
    if (this.#exitCode === undefined) this.#awaitConnection();
  }

  #awaitConnection(): void {
    clearTimeout(this.#grace);
    this.#grace = setTimeout(() => void this.#hangUp(), this.#wire.grace);
    this.#grace.unref();
  }

  async #hangUp(): Promise<void> {
    try {
      const command = await this.#command;
      if (command) await this.#wire.core.commands.kill(this.#caller, this.#sessionId, command.id, hangup);
    } catch (error) {
      // The session may have ended before the terminal.
      if (!isSandkeepError(error) || error.code === "internal") this.#wire.logError(error);
    }
    this.#endedAt ??= this.#wire.clock();
  }

  #obey(connection: WebSocket, data: Buffer): void {
    let wanted: TerminalRequest;
    try {
      wanted = this.#wire.read(data.toString());
    } catch (error) {
      connection.close(closing.invalid, closingReason(this.#wire.sentenceOf(error)));
      return;
    }
    // A client that reconnects may send "start" again: then only the size of the running command changes.
    const size = wanted.type === "start" ? wanted.spec : wanted;
    if (wanted.type !== "start" || this.#command) return void this.resize(size).catch(() => undefined);
    void this.start(wanted.spec).catch(() => undefined);
    void this.#show(connection);
  }

  /** sends the command's output as fast as the connection takes it, and then its exit code */
  async #show(connection: WebSocket): Promise<void> {
    const { signal } = this.#gone;
    try {
      const command = await this.#command;
      if (!command) return;
      const { commands } = this.#wire.core;
      const options = { from: this.#sent, signal };
      for await (const chunk of await commands.output(this.#caller, this.#sessionId, command.id, options)) {
        if (signal.aborted) return;
        this.#sent = chunk.offset + chunk.data.length;
        if (!(await taken(connection, chunk.data))) return;
      }
      if (signal.aborted) return;
      const ended = await commands.wait(this.#caller, this.#sessionId, command.id, signal);
      this.#end(connection, ended.exitCode ?? 137);
    } catch (error) {
      if (signal.aborted) return;
      if (!isSandkeepError(error) || error.code === "internal") this.#wire.logError(error);
      await taken(connection, Buffer.from(`${this.#wire.sentenceOf(error)}\r\n`));
      this.#end(connection, exitCodeOf(error));
    }
  }

  #end(connection: WebSocket, code: number): void {
    this.#exitCode = code;
    this.#endedAt ??= this.#wire.clock();
    connection.send(this.#wire.exit(code), () => connection.close(closing.done));
  }

  async #write(data: Uint8Array): Promise<void> {
    if (this.#caller.ended?.aborted) return;
    const command = await this.#command;
    if (command && this.#exitCode === undefined) {
      await this.#wire.core.commands.write(this.#caller, this.#sessionId, command.id, data);
    }
  }
}

/** Input on its way to the command, in order; the connection is not read while too much of it waits. */
export class TerminalInput {
  readonly #connection: WebSocket;
  readonly #write: (data: Uint8Array) => Promise<void>;
  #waiting = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(connection: WebSocket, write: (data: Uint8Array) => Promise<void>) {
    this.#connection = connection;
    this.#write = write;
  }

  push(data: Buffer): void {
    this.#waiting += data.length;
    if (this.#waiting > mostWaiting) this.#connection.pause();
    this.#last = this.#last
      .then(() => this.#write(data))
      // Input for a command that has ended is discarded.
      .catch(() => undefined)
      .then(() => {
        this.#waiting -= data.length;
        if (this.#waiting <= mostWaiting) this.#connection.resume();
      });
  }
}

/**
 * Resolves once the connection has taken the data, so that a slow reader slows the command down instead of filling
 * memory. Resolves to false when the connection is closed.
 */
export function taken(connection: WebSocket, data: Uint8Array): Promise<boolean> {
  return new Promise((resolve) => {
    connection.send(data, { binary: true }, (error) => resolve(!error));
  });
}

/** the exit code that a shell would report */
function exitCodeOf(error: unknown): number {
  return isSandkeepError(error, "invalid", "executable") ? 127 : 126;
}
