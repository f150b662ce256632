/**
 * The samples of all sessions on the disk, so that a restart does not lose them. New points are appended twice a minute,
 * without waiting for the disk; when the file has grown to several times of what is kept, it is written anew.
 *
 *   {"s":"sbx_…","p":[[at,cpuTime,memory,disk,processes,received,sent,cache],…]}  points to add
 *   {"s":"sbx_…","i":20000,"w":[…]}                                               a whole series, with its interval in ms
 */

import type { LineFiles } from "../ports/line-files.ts";
import type { Point, Series } from "./samples.ts";

/** its time, processor time, memory, disk, processes, bytes received and sent, and cache, which earlier versions did not write */
type Row = [number, number, number, number | null, number, number, number, (number | null)?];
type Line = { s: string; p: Row[] } | { s: string; i: number; w: Row[] };

const name = "samples";
/** ms between two writes */
const every = 30_000;
/** the file is written anew when it has this many bytes, and more than so many times of what is kept */
const leastBytes = 1 << 20;
const mostTimes = 3;

export class SampleRecord {
  readonly #files: LineFiles;
  readonly #logError: (error: unknown) => void;
  #waiting = new Map<string, Row[]>();
  #writtenAt = 0;
  #bytes = 0;
  /** of the file when it was last written anew */
  #keptBytes = 0;

  constructor(files: LineFiles, logError: (error: unknown) => void) {
    this.#files = files;
    this.#logError = logError;
  }

  /** the series of each session; `take` adds a point to one */
  load(make: () => Series, take: (series: Series, point: Point) => void): Map<string, Series> {
    const all = new Map<string, Series>();
    for (const text of this.#read()) {
      this.#bytes += text.length + 1;
      const line = lineOf(text);
      if (!line) continue;
      const series = all.get(line.s) ?? make();
      // The one that changed last is last.
      all.delete(line.s);
      if ("w" in line) all.set(line.s, { interval: line.i, points: line.w.map(pointOf) });
      else for (const row of all.set(line.s, series) && line.p) take(series, pointOf(row));
    }
    return all;
  }

  add(session: string, point: Point): void {
    const rows = this.#waiting.get(session) ?? [];
    rows.push(rowOf(point));
    this.#waiting.set(session, rows);
  }

  isDue(now: number): boolean {
    return this.#waiting.size > 0 && Math.abs(now - this.#writtenAt) >= every;
  }

  /** writes what waits; `all` are the series that are kept */
  async write(all: Iterable<[string, Series]>, now: number): Promise<void> {
    this.#writtenAt = now;
    if (this.#waiting.size === 0) return;
    const added = [...this.#waiting].map(([s, p]) => `${JSON.stringify({ s, p })}\n`).join("");
    this.#waiting = new Map();
    try {
      if (this.#bytes + added.length <= Math.max(leastBytes, mostTimes * this.#keptBytes)) {
        await this.#files.append(name, added);
        this.#bytes += added.length;
        return;
      }
      const whole = [...all].map(
        ([s, { interval: i, points }]) => `${JSON.stringify({ s, i, w: points.map(rowOf) })}\n`,
      );
      const text = whole.join("");
      await this.#files.replace(name, text);
      this.#bytes = text.length;
      this.#keptBytes = text.length;
    } catch (error) {
      this.#logError(error);
    }
  }

  #read(): string[] {
    try {
      return this.#files.read(name);
    } catch (error) {
      this.#logError(error);
      return [];
    }
  }
}

function rowOf({ at, cpuTime, memory, cache, disk, processes, network: { received, sent } }: Point): Row {
  return [at, cpuTime, memory, disk ?? null, processes, received, sent, cache ?? null];
}

function pointOf([at, cpuTime, memory, disk, processes, received, sent, cache = null]: Row): Point {
  const some = { ...(cache !== null && { cache }), ...(disk !== null && { disk }) };
  return { at, cpuTime, memory, ...some, processes, network: { received, sent } };
}

/** undefined for a line that a crash of the host has damaged */
function lineOf(text: string): Line | undefined {
  try {
    const line: Line = JSON.parse(text); // only the daemon writes this file
    const rows = "w" in line ? line.w : line.p;
    return typeof line.s === "string" && Array.isArray(rows) && rows.every(Array.isArray) ? line : undefined;
  } catch {
    return undefined;
  }
}
