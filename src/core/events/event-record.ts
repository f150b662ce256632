/**
 * The events of each project on the disk, so that their followers continue after a restart. Each line of a project's file
 * is an event as followers receive it. Lines are collected for a moment and written together, and no call waits for them.
 *
 * A daemon that ends writes `{"end":"…"}` to the files that it wrote to, with the id of this boot of the host. If that
 * is missing or of another boot, events may be lost: a crash of the daemon loses those of the last moment, and a crash of
 * the host what the kernel had not written.
 */

import { OrderedWork } from "../../base/concurrency/ordered-work.ts";
import type { LineFiles } from "../ports/line-files.ts";
import { type Cursor, type Published, parseCursor } from "./published.ts";

/** how long events are collected, in ms */
const collected = 100;
/** most events of a project that wait for the disk */
const mostWaiting = 5000;
/** bytes of a file that are read to continue a stream */
const loaded = 256 << 10;

interface Waiting {
  events: Published[];
  /** whether some could not be written, so that the file has a hole */
  isTorn: boolean;
}

export class EventRecord {
  readonly #files: LineFiles;
  readonly #endLine: string;
  readonly #logError: (error: unknown) => void;
  /** projects whose files have no end yet */
  readonly #open = new Map<string, Waiting>();
  /** those with events that are not written yet */
  readonly #dirty = new Set<string>();
  readonly #writes = new OrderedWork();
  /** projects with a write under way */
  readonly #writing = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(files: LineFiles, boot: string, logError: (error: unknown) => void) {
    this.#files = files;
    this.#endLine = JSON.stringify({ end: boot });
    this.#logError = logError;
  }

  /** the newest events, without a hole, and whether all that were published are there; undefined if there are none */
  load(projectId: string): { events: Published[]; isWhole: boolean } | undefined {
    const lines = this.#read(projectId, loaded);
    const isWhole = lines.at(-1) === this.#endLine;
    const events = withoutHole(lines);
    return events.length > 0 ? { events, isWhole } : undefined;
  }

  add(projectId: string, event: Published): void {
    const waiting = this.#open.get(projectId) ?? { events: [], isTorn: false };
    this.#open.set(projectId, waiting);
    if (waiting.events.length >= mostWaiting) {
      waiting.events = [];
      waiting.isTorn = true;
    }
    waiting.events.push(event);
    this.#dirty.add(projectId);
    this.#timer ??= setTimeout(() => void this.#writeAll(), collected).unref();
  }

  /** every event after this one that is still kept; undefined if it is not */
  async after(projectId: string, cursor: string): Promise<Published[] | undefined> {
    await this.#write(projectId);
    const events = withoutHole(this.#read(projectId));
    const at = events.findIndex((event) => event.cursor === cursor);
    return at < 0 ? undefined : events.slice(at + 1);
  }

  /** writes the end of a project's file; false if it is still being written to */
  end(projectId: string): boolean {
    if (this.#dirty.has(projectId) || this.#writing.has(projectId)) return false;
    const waiting = this.#open.get(projectId);
    this.#open.delete(projectId);
    try {
      if (waiting && !waiting.isTorn) this.#files.appendNow(projectId, `${this.#endLine}\n`);
    } catch (error) {
      this.#logError(error);
    }
    return true;
  }

  /** deletes the events of a project */
  async forget(projectId: string): Promise<void> {
    this.#open.delete(projectId);
    this.#dirty.delete(projectId);
    await this.#writes.run(projectId, () => this.#files.delete(projectId)).catch(this.#logError);
  }

  /** writes what waits, and the end of each file */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    // Also those without new events: a write may be under way.
    await Promise.all([...this.#open.keys()].map((projectId) => this.#write(projectId)));
    for (const projectId of [...this.#open.keys()]) this.end(projectId);
  }

  async #writeAll(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await Promise.all([...this.#dirty].map((projectId) => this.#write(projectId)));
  }

  #write(projectId: string): Promise<void> {
    this.#writing.set(projectId, (this.#writing.get(projectId) ?? 0) + 1);
    return this.#writes
      .run(projectId, async () => {
        const waiting = this.#open.get(projectId);
        this.#dirty.delete(projectId);
        if (!waiting || waiting.events.length === 0) return;
        const text = waiting.events.map((event) => `${JSON.stringify(event)}\n`).join("");
        waiting.events = [];
        try {
          await this.#files.append(projectId, text);
        } catch (error) {
          waiting.isTorn = true;
          this.#logError(error);
        }
      })
      .finally(() => {
        const left = (this.#writing.get(projectId) ?? 1) - 1;
        if (left > 0) this.#writing.set(projectId, left);
        else this.#writing.delete(projectId);
      });
  }

  #read(projectId: string, bytes?: number): string[] {
    try {
      return this.#files.read(projectId, bytes);
    } catch (error) {
      this.#logError(error);
      return [];
    }
  }
}

/** the events of the lines, from the last hole on: numbers that are missing, or come again */
function withoutHole(lines: readonly string[]): Published[] {
  const events: Published[] = [];
  let next: number | undefined;
  for (const line of lines.toReversed()) {
    const event = eventOf(line);
    if (!event) continue;
    if (next !== undefined && event.number !== next - 1) break;
    next = event.number;
    events.push(event.published);
  }
  return events.reverse();
}

/** undefined for an end, and for a line that a crash of the host has damaged */
function eventOf(line: string): { published: Published; number: Cursor["number"] } | undefined {
  try {
    const published: Published = JSON.parse(line); // only the daemon writes these files
    const cursor = parseCursor(published.cursor);
    return cursor && typeof published.type === "string" ? { published, number: cursor.number } : undefined;
  } catch {
    return undefined;
  }
}
