/**
 * The events of each project, in order, of which the newest are kept. A follower says after which one to continue:
 *
 *   … 41  42  43  44 ┃ next             after 42: 43 and 44 at once, then what comes
 *     └── kept ────┘
 *
 * A cursor names an event of one run of the daemon. If events after the cursor are lost, or the cursor is from an
 * earlier run, the follower first receives a "gap" event. It must then read the whole state again.
 */

import { SandkeepError } from "../model/errors.ts";
import type { Event } from "./event.ts";

/** An event with its cursor and time. */
export type Published = (Event | { type: "gap" }) & {
  /** names this event in `after` */
  cursor: string;
  /** in ms since 1970 */
  at: number;
};

export interface EventsOptions {
  /** id of this run of the daemon, of letters and digits */
  run: string;
  now: () => number;
  /** events kept for each project */
  kept?: number;
}

interface Stream {
  /** unique, so that cursors of a dropped stream do not match its successor */
  name: string;
  /** the number of the newest event; the first one is 1 */
  newest: number;
  events: Published[];
  /** resolves when the next event arrives */
  next: PromiseWithResolvers<void>;
}

/** most projects whose events are kept; the one idle for longest is dropped first */
const mostProjects = 200;
/** most characters of a text that callers choose, such as a path */
const longestText = 256;
const defaultKept = 500;

export class Events {
  readonly #options: Required<EventsOptions>;
  /** by project; the one with the newest event is last */
  readonly #streams = new Map<string, Stream>();
  #made = 0;
  /** promises for the next event of each session */
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();

  constructor(options: EventsOptions) {
    this.#options = { kept: defaultKept, ...options };
  }

  publish(projectId: string, event: Event): void {
    const stream = this.#stream(projectId);
    stream.newest++;
    stream.events.push({ ...shortened(event), cursor: cursorOf(stream, stream.newest), at: this.#options.now() });
    if (stream.events.length > this.#options.kept) stream.events.shift();
    this.#streams.delete(projectId);
    this.#streams.set(projectId, stream);
    if (this.#streams.size > mostProjects) this.#forget();
    stream.next.resolve();
    stream.next = Promise.withResolvers();
    if ("sessionId" in event) this.#wake(event.sessionId);
  }

  /**
   * Resolves with the next event of this session. Call it before reading the session's state, so that no change is
   * missed.
   */
  changed(sessionId: string): Promise<void> {
    const waiting = this.#waiting.get(sessionId) ?? Promise.withResolvers<void>();
    this.#waiting.set(sessionId, waiting);
    return waiting.promise;
  }

  /** the kept events after a cursor, or all of them, and the next cursor; throws `invalid` if it is malformed */
  page(projectId: string, after: string | undefined): { events: Published[]; next: string } {
    // Reading alone stores no stream.
    const stream = this.#streams.get(projectId) ?? this.#newStream();
    const oldest = stream.newest - stream.events.length + 1;
    const known = after === undefined ? oldest - 1 : numberOf(stream, after);
    const next = cursorOf(stream, stream.newest);
    if (!isKnown(stream, known)) {
      const gap = { type: "gap" as const, cursor: cursorOf(stream, oldest - 1), at: this.#options.now() };
      return { events: [gap, ...stream.events], next };
    }
    return { events: stream.events.slice(known + 1 - oldest), next };
  }

  /** the events after a cursor, or from now on, until the signal aborts; throws `invalid` if the cursor is malformed */
  follow(projectId: string, after: string | undefined, signal: AbortSignal): AsyncIterable<Published> {
    const stream = this.#stream(projectId);
    const known = after === undefined ? stream.newest : numberOf(stream, after);
    return this.#follow(projectId, stream, known, signal);
  }

  async *#follow(projectId: string, first: Stream, known: number, signal: AbortSignal): AsyncIterable<Published> {
    let [stream, last] = [first, known];
    while (!signal.aborted) {
      const current = this.#stream(projectId);
      const oldest = current.newest - current.events.length + 1;
      if (current !== stream || !isKnown(current, last)) {
        [stream, last] = [current, oldest - 1];
        yield { type: "gap", cursor: cursorOf(current, last), at: this.#options.now() };
        continue;
      }
      const event = stream.events[last + 1 - oldest];
      if (event) {
        last++;
        yield event;
      } else {
        await either(stream.next.promise, signal);
      }
    }
  }

  #stream(projectId: string): Stream {
    const there = this.#streams.get(projectId);
    if (there) return there;
    const stream = this.#newStream();
    this.#streams.set(projectId, stream);
    return stream;
  }

  #newStream(): Stream {
    const name = `${this.#options.run}x${++this.#made}`;
    return { name, newest: 0, events: [], next: Promise.withResolvers() };
  }

  /** Drops the streams over the limit, those without events first. Their followers receive a gap. */
  #forget(): void {
    const byNeed = [...this.#streams].sort(([, a], [, b]) => Number(a.newest > 0) - Number(b.newest > 0));
    for (const [projectId, { next }] of byNeed.slice(0, Math.max(0, byNeed.length - mostProjects))) {
      this.#streams.delete(projectId);
      next.resolve();
    }
  }

  #wake(sessionId: string): void {
    this.#waiting.get(sessionId)?.resolve();
    this.#waiting.delete(sessionId);
  }
}

/**
 * Resolves with the promise, or when the signal aborts. It removes its listener from the signal: a race against one
 * abort promise would hold memory for every event as long as the follower stays.
 */
function either(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      signal.removeEventListener("abort", done);
      resolve();
    };
    signal.addEventListener("abort", done);
    promise.then(done);
  });
}

/** whether every event after this one is kept */
function isKnown({ newest, events }: Stream, number: number): boolean {
  return number >= newest - events.length && number <= newest;
}

function cursorOf({ name }: Stream, number: number): string {
  return `${name}-${number}`;
}

/** -1, which is before all events, for a cursor of another stream */
function numberOf({ name }: Stream, cursor: string): number {
  const [, stream, number] = /^([A-Za-z0-9]{1,64})-(\d{1,15})$/.exec(cursor) ?? [];
  if (stream === undefined) throw new SandkeepError("invalid", "Invalid request: `after` is not a cursor of an event.");
  return stream === name ? Number(number) : -1;
}

function shortened<E extends Event>(event: E): E {
  const entries = Object.entries(event).map(([name, value]) => {
    const isLong = typeof value === "string" && value.length > longestText;
    return [name, isLong ? `${value.slice(0, longestText)}…` : value];
  });
  return Object.fromEntries(entries) as E;
}
