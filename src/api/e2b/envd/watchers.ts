/** Watchers that buffer changes until a client polls for them, for clients without streams. */

import { randomBytes } from "node:crypto";
import type { Service } from "../../kit/dialect.ts";
import { ConnectError, connectErrorOf } from "./connect.ts";

interface Watcher {
  sessionId: string;
  events: object[];
  /** characters of the buffered events */
  length: number;
  /** number of dropped changes */
  lost: number;
  /** why the watch ended */
  failure: ConnectError | undefined;
  usedAt: number;
  end: AbortController;
}

/** most watchers of one sandbox; each is a process inside it */
const mostWatchers = 64;
/** most characters of buffered changes, as JSON */
const longestEvents = 1 << 20;
/** how long an unused watcher is kept, in ms */
const longestIdle = 60 * 60_000;

export class Watchers {
  readonly #service: Pick<Service, "clock" | "logError">;
  readonly #all = new Map<string, Watcher>();
  /** number of watchers that are starting, by session */
  readonly #beginning = new Map<string, number>();

  constructor(service: Pick<Service, "clock" | "logError">) {
    this.#service = service;
  }

  /** `begin` resolves once the watch is in place, to the changes from then on until the signal aborts */
  async create(sessionId: string, begin: (signal: AbortSignal) => Promise<AsyncIterable<object>>): Promise<string> {
    this.#sweep();
    const beginning = this.#beginning.get(sessionId) ?? 0;
    const there = [...this.#all.values()].filter((watcher) => watcher.sessionId === sessionId).length;
    if (there + beginning >= mostWatchers) {
      throw new ConnectError("resource_exhausted", `Cannot watch: a sandbox has at most ${mostWatchers} watchers`);
    }
    this.#beginning.set(sessionId, beginning + 1);
    try {
      const end = new AbortController();
      const events = await begin(end.signal);
      const usedAt = this.#service.clock();
      const watcher: Watcher = { sessionId, events: [], length: 0, lost: 0, failure: undefined, usedAt, end };
      const id = `w${randomBytes(12).toString("hex")}`;
      this.#all.set(id, watcher);
      void collect(watcher, events);
      return id;
    } finally {
      const left = (this.#beginning.get(sessionId) ?? 1) - 1;
      if (left > 0) this.#beginning.set(sessionId, left);
      else this.#beginning.delete(sessionId);
    }
  }

  /** events since the last call */
  events(sessionId: string, id: string): object[] {
    const watcher = this.#find(sessionId, id);
    watcher.usedAt = this.#service.clock();
    const { events, lost } = watcher;
    if (events.length === 0 && watcher.failure) throw watcher.failure;
    Object.assign(watcher, { events: [], length: 0, lost: 0 });
    if (lost === 0) return events;
    throw new ConnectError(
      "resource_exhausted",
      `Cannot return all changes: ${lost} were lost, because they were not read in time`,
    );
  }

  remove(sessionId: string, id: string): void {
    this.#find(sessionId, id).end.abort();
    this.#all.delete(id);
  }

  #find(sessionId: string, id: string): Watcher {
    const watcher = this.#all.get(id);
    if (watcher?.sessionId === sessionId) return watcher;
    const why = "it was removed, was not asked for an hour, or ended with the daemon that had it; watch again";
    throw new ConnectError("not_found", `watcher with id '${id.slice(0, 64)}' not found: ${why}`);
  }

  #sweep(): void {
    const now = this.#service.clock();
    for (const [id, { usedAt, end }] of this.#all) {
      if (now - usedAt < longestIdle) continue;
      end.abort();
      this.#all.delete(id);
    }
  }
}

async function collect(watcher: Watcher, events: AsyncIterable<object>): Promise<void> {
  try {
    for await (const event of events) {
      watcher.length += JSON.stringify(event).length;
      if (watcher.length < longestEvents) watcher.events.push(event);
      else watcher.lost++;
    }
    watcher.failure = new ConnectError("not_found", "the directory that was watched is gone");
  } catch (error) {
    // An abort ends the watch without an error. Any other error goes to the client's next poll.
    watcher.failure = connectErrorOf(error);
  }
}
