/** Watchers that buffer changes until a client polls for them, for clients without streams. */

import { randomBytes } from "node:crypto";
import { isSandkeepError } from "../../../core/model/errors.ts";
import type { Service } from "../../kit/dialect.ts";
import { ConnectError, connectErrorOf } from "./connect.ts";

/** resolves once a watch is in place, to the changes from then on until the signal aborts */
type Begin = (signal: AbortSignal) => Promise<AsyncIterable<object>>;

interface Watcher {
  sessionId: string;
  begin: Begin;
  events: object[];
  /** characters of the buffered events */
  length: number;
  /** reads on; set while the buffer is full */
  resume: (() => void) | undefined;
  /** whether the watch ended because changes came faster than they were read */
  isOverrun: boolean;
  /** why the watch ended for good */
  failure: ConnectError | undefined;
  usedAt: number;
  end: AbortController;
}

/** most watchers of one sandbox; each is a process inside it */
const mostWatchers = 64;
/** characters of buffered changes, as JSON, from which on no more are read */
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

  async create(sessionId: string, begin: Begin): Promise<string> {
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
      const state = { events: [], length: 0, resume: undefined, isOverrun: false, failure: undefined };
      const watcher: Watcher = { sessionId, begin, ...state, usedAt, end };
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

  /** events since the last call; where some are missing in between, one call fails and says so */
  async events(sessionId: string, id: string): Promise<object[]> {
    const watcher = this.#find(sessionId, id);
    watcher.usedAt = this.#service.clock();
    const { events } = watcher;
    Object.assign(watcher, { events: [], length: 0 });
    watcher.resume?.();
    if (events.length > 0) return events;
    if (watcher.isOverrun) {
      watcher.isOverrun = false;
      // Before the answer: what the client does after it is seen again.
      await beginAgain(watcher);
      const why = "some were lost, because they were not read in time";
      throw new ConnectError("resource_exhausted", `Cannot return all changes: ${why}`);
    }
    if (watcher.failure) throw watcher.failure;
    return events;
  }

  remove(sessionId: string, id: string): void {
    stop(this.#find(sessionId, id));
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
    for (const [id, watcher] of this.#all) {
      if (now - watcher.usedAt < longestIdle) continue;
      stop(watcher);
      this.#all.delete(id);
    }
  }
}

function stop(watcher: Watcher): void {
  watcher.end.abort();
  watcher.resume?.();
}

async function beginAgain(watcher: Watcher): Promise<void> {
  try {
    void collect(watcher, await watcher.begin(watcher.end.signal));
  } catch (error) {
    watcher.failure = connectErrorOf(error);
  }
}

async function collect(watcher: Watcher, events: AsyncIterable<object>): Promise<void> {
  try {
    for await (const event of events) {
      watcher.events.push(event);
      watcher.length += JSON.stringify(event).length;
      // Changes that are not read cost the daemon nothing: they wait inside the sandbox, as far as its kernel has room.
      if (watcher.length >= longestEvents) await polled(watcher);
    }
    watcher.failure = new ConnectError("not_found", "the directory that was watched is gone");
  } catch (error) {
    // An abort ends the watch without an error. Any other error goes to the client's next poll.
    if (isSandkeepError(error, "limit")) watcher.isOverrun = true;
    else watcher.failure = connectErrorOf(error);
  }
}

/** resolves at the next poll, or when the watcher is removed */
function polled(watcher: Watcher): Promise<void> {
  return new Promise((resolve) => {
    watcher.resume = () => {
      watcher.resume = undefined;
      resolve();
    };
    if (watcher.end.signal.aborted) watcher.resume();
  });
}
