/**
 * The events of each project, in order, of which the newest are kept. A follower says after which one to continue:
 *
 *   … 41  42  43  44 ┃ next             after 42: 43 and 44 at once, then what comes
 *     └── kept ────┘
 *
 * The newest are in memory, and more of them on the disk (event-record.ts), also over restarts of the daemon. If events
 * after the cursor are lost, the follower first receives a "gap" event. It must then read the whole state again. After a
 * crash of the daemon such an event is in the stream itself, as the last moments before it may be missing.
 */

import { SandkeepError } from "../model/errors.ts";
import type { LineFiles } from "../ports/line-files.ts";
import type { Event } from "./event.ts";
import { EventRecord } from "./event-record.ts";
import { cursorOf, type Published, parseCursor } from "./published.ts";

export type { Published };

export interface EventsOptions {
  /** id of this run of the daemon, of letters and digits */
  run: string;
  now: () => number;
  /** events of each project in memory */
  kept?: number;
  /** where events are kept over a restart; by default nowhere */
  files?: LineFiles | undefined;
  /** id of this boot of the host */
  boot?: string | undefined;
  logError?: (error: unknown) => void;
}

interface Stream {
  series: string;
  /** the number of the newest event; the first one is 1 */
  newest: number;
  events: Published[];
  /** cursors of the newest event, and of the one before those in memory */
  last: string;
  before: string;
  /** resolves when the next event arrives */
  next: PromiseWithResolvers<void>;
}

/** most projects with events in memory; the one idle for longest is dropped first */
const mostProjects = 200;
/** most characters of a text that callers choose, such as a path */
const longestText = 256;
const defaultKept = 500;
/** most events of a page */
const mostOnPage = 1000;

export class Events {
  readonly #options: Required<Pick<EventsOptions, "run" | "now" | "kept">>;
  readonly #record: EventRecord | undefined;
  /** by project; the one with the newest event is last */
  readonly #streams = new Map<string, Stream>();
  #made = 0;
  /** promises for the next event of each session */
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();

  constructor({ run, now, kept = defaultKept, files, boot = "", logError = () => undefined }: EventsOptions) {
    this.#options = { run, now, kept };
    this.#record = files && new EventRecord(files, boot, logError);
  }

  publish(projectId: string, event: Event): void {
    const stream = this.#stream(projectId);
    this.#add(projectId, stream, shortened(event));
    this.#streams.delete(projectId);
    this.#streams.set(projectId, stream);
    if (this.#streams.size > mostProjects) this.#drop();
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

  /** the kept events after a cursor, or those in memory, and the next cursor; throws `invalid` if it is malformed */
  async page(projectId: string, after: string | undefined): Promise<{ events: Published[]; next: string }> {
    requireCursor(after);
    // Reading alone stores no stream.
    const stream = this.#known(projectId) ?? this.#newStream();
    const found = after === undefined ? stream.events : await this.#after(projectId, stream, after);
    const events = (found ?? [this.#gapBefore(stream), ...stream.events]).slice(0, mostOnPage);
    return { events, next: events.at(-1)?.cursor ?? stream.last };
  }

  /** the events after a cursor, or from now on, until the signal aborts; throws `invalid` if the cursor is malformed */
  follow(projectId: string, after: string | undefined, signal: AbortSignal): AsyncIterable<Published> {
    requireCursor(after);
    return this.#follow(projectId, after ?? this.#stream(projectId).last, signal);
  }

  /** the newest event's cursor, with which a follower begins now */
  newest(projectId: string): string {
    return this.#stream(projectId).last;
  }

  /** resolves with the next event of the project. Call it before reading its events, so that none is missed */
  arrived(projectId: string): Promise<void> {
    return this.#stream(projectId).next.promise;
  }

  /** deletes the events of a project that was deleted */
  async forget(projectId: string): Promise<void> {
    this.#streams.get(projectId)?.next.resolve();
    this.#streams.delete(projectId);
    await this.#record?.forget(projectId);
  }

  /** writes what waits for the disk */
  async close(): Promise<void> {
    await this.#record?.close();
  }

  async *#follow(projectId: string, from: string, signal: AbortSignal): AsyncIterable<Published> {
    let last = from;
    while (!signal.aborted) {
      const stream = this.#stream(projectId);
      const { promise } = stream.next;
      const found = (await this.#after(projectId, stream, last)) ?? [this.#gapBefore(stream)];
      for (const event of found) {
        if (signal.aborted) return;
        last = event.cursor;
        yield event;
      }
      if (found.length === 0) await either(promise, signal);
    }
  }

  /** the events after this one; undefined if some are lost */
  async #after(projectId: string, stream: Stream, cursor: string): Promise<Published[] | undefined> {
    const index = indexAfter(stream, cursor);
    return index === undefined ? this.#record?.after(projectId, cursor) : stream.events.slice(index);
  }

  #gapBefore({ before }: Stream): Published {
    return { type: "gap", cursor: before, at: this.#options.now() };
  }

  #add(projectId: string, stream: Stream, event: Event | { type: "gap" }): void {
    stream.newest++;
    stream.last = cursorOf({ series: stream.series, number: stream.newest });
    const published = { ...event, cursor: stream.last, at: this.#options.now() };
    stream.events.push(published);
    if (stream.events.length > this.#options.kept) stream.before = stream.events.shift()?.cursor ?? stream.before;
    this.#record?.add(projectId, published);
  }

  #stream(projectId: string): Stream {
    const there = this.#known(projectId);
    if (there) return there;
    const stream = this.#newStream();
    this.#streams.set(projectId, stream);
    return stream;
  }

  /** the stream in memory or on the disk */
  #known(projectId: string): Stream | undefined {
    const there = this.#streams.get(projectId);
    if (there) return there;
    const loaded = this.#record?.load(projectId);
    const last = loaded?.events.at(-1)?.cursor ?? "";
    const place = parseCursor(last);
    if (!loaded || !place) return undefined;
    const events = loaded.events.slice(-this.#options.kept);
    const first = parseCursor(events[0]?.cursor ?? last) ?? place;
    const before = loaded.events.at(-1 - events.length)?.cursor ?? cursorOf({ ...first, number: first.number - 1 });
    const next = Promise.withResolvers<void>();
    const stream = { series: place.series, newest: place.number, events, last, before, next };
    this.#streams.set(projectId, stream);
    if (!loaded.isWhole) {
      stream.series = this.#newSeries();
      this.#add(projectId, stream, { type: "gap" });
    }
    return stream;
  }

  #newStream(): Stream {
    const series = this.#newSeries();
    const last = cursorOf({ series, number: 0 });
    return { series, newest: 0, events: [], last, before: last, next: Promise.withResolvers() };
  }

  #newSeries(): string {
    return `${this.#options.run}x${++this.#made}`;
  }

  /** Drops the streams over the limit, those without events first. Without files, their followers receive a gap. */
  #drop(): void {
    const byNeed = [...this.#streams].sort(([, a], [, b]) => Number(a.newest > 0) - Number(b.newest > 0));
    for (const [projectId, { next }] of byNeed.slice(0, Math.max(0, byNeed.length - mostProjects))) {
      if (this.#record?.end(projectId) === false) continue;
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

/** the place in memory of the event after this one; undefined if it is not there */
function indexAfter({ newest, events, last, before }: Stream, cursor: string): number | undefined {
  if (cursor === last) return events.length;
  if (cursor === before) return 0;
  const index = (parseCursor(cursor)?.number ?? 0) - (newest - events.length + 1);
  return events[index]?.cursor === cursor ? index + 1 : undefined;
}

function requireCursor(cursor: string | undefined): void {
  if (cursor === undefined || parseCursor(cursor)) return;
  throw new SandkeepError("invalid", "Invalid request: `after` is not a cursor of an event.");
}

function shortened<E extends Event>(event: E): E {
  const entries = Object.entries(event).map(([name, value]) => {
    const isLong = typeof value === "string" && value.length > longestText;
    return [name, isLong ? `${value.slice(0, longestText)}…` : value];
  });
  return Object.fromEntries(entries) as E;
}
