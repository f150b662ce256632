/** One command on a machine, as the daemon follows it: how far its output has grown and how it ended. */

import { unlessAborted } from "../../../base/concurrency/waits.ts";
import type { ExitStatus, OutputChunk, OutputOptions, Process } from "../../../core/ports/runtime.ts";
import type { Agent } from "../guest-wire/agent.ts";
import { type OutputState, readJournal } from "./journal.ts";
import { OutputReaders } from "./output-readers.ts";

export class LinuxProcess implements Process, OutputState {
  readonly id: string;
  readonly exited: Promise<ExitStatus>;
  pid = 0;
  startedAt = 0;
  exit: ExitStatus | undefined;
  /** end of the output so far */
  end = 0;
  readonly readers: OutputReaders;
  readonly #agent: Agent;
  /** resolves with the next change; undefined while nothing waits for one */
  #change: PromiseWithResolvers<void> | undefined;
  #resolve: (status: ExitStatus) => void = () => {};
  #reject: (error: Error) => void = () => {};
  #lost = false;
  #released: Error | undefined;
  /** set while its machine is paused */
  #paused: Error | undefined;

  constructor(agent: Agent, id: string, outputLimit: number) {
    this.#agent = agent;
    this.id = id;
    this.readers = new OutputReaders({ limit: outputLimit, spare: (offset) => agent.spare(id, offset) });
    this.exited = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // the end may have no waiter: no unhandled rejection then
    this.exited.catch(() => {});
  }

  get ended(): boolean {
    return this.exit !== undefined || this.#lost;
  }

  async changed(signal?: AbortSignal): Promise<void> {
    const stopped = () => this.#released ?? (this.ended ? undefined : this.#paused);
    if (!this.ended && !stopped()) {
      this.#change ??= Promise.withResolvers();
      await unlessAborted(this.#change.promise, signal);
      signal?.throwIfAborted();
    }
    const reason = stopped();
    if (reason) throw reason;
  }

  started(pid: number, startedAt: number): this {
    this.pid = pid;
    this.startedAt = startedAt;
    return this;
  }

  grew(end: number): void {
    this.end = Math.max(this.end, end);
    this.readers.grew(this.end);
    this.#changed();
  }

  finished(status: ExitStatus): void {
    if (this.ended) return;
    this.exit = status;
    this.readers.close();
    this.end = Math.max(this.end, status.outputEnd);
    this.#changed();
    this.#resolve(status);
  }

  /** the machine is gone, and this command with it */
  lost(reason: Error, end: number): void {
    if (this.ended) return;
    this.#lost = true;
    this.readers.close();
    this.end = Math.max(this.end, end);
    this.#changed();
    this.#reject(reason);
  }

  /** the runtime was closed while the command may still run: readers must not take that for its end */
  release(reason: Error): void {
    if (this.ended) return;
    this.#released = reason;
    this.readers.close();
    this.#changed();
    this.#reject(reason);
  }

  /** its machine is paused: readers that wait for more get this error; without one, it goes on */
  pause(reason: Error | undefined): void {
    this.#paused = reason;
    this.#changed();
  }

  async *output({ from = 0, follow = true, signal }: OutputOptions = {}): AsyncGenerator<OutputChunk> {
    const reader = this.ended || !follow ? undefined : this.readers.add(from);
    try {
      const taken = (offset: number) => reader?.taken(offset);
      yield* readJournal(this.#agent.journal, this.id, this, { from, follow, signal, taken });
    } finally {
      reader?.close();
    }
  }

  #changed(): void {
    this.#change?.resolve();
    this.#change = undefined;
  }

  write(data: Uint8Array): Promise<void> {
    return this.#agent.write(this.id, data);
  }

  feed(data: Uint8Array, offset: number, signal: AbortSignal): Promise<number> {
    return this.#agent.feed(this.id, data, offset, signal);
  }

  given(): Promise<number> {
    return this.#agent.given(this.id);
  }

  closeStdin(): Promise<void> {
    return this.#agent.closeStdin(this.id);
  }

  signal(signal: number, options: { alone?: boolean } = {}): Promise<void> {
    return this.#agent.signal(this.id, signal, options.alone);
  }

  resize(size: { rows: number; columns: number }): Promise<void> {
    return this.#agent.resize(this.id, size);
  }
}
