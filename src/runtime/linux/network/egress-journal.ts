/**
 * Reads the files that the egress process has written for a machine (src/protocols/egress-log.ts has the format): lines from a
 * position on, once or as they come, and bytes by host; bytes by port are our own (port-meters.ts). The two processes
 * share nothing but these files. The current file is rotated to the older one at times, also while it is read.
 */

import { constants, type Stats } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { EgressLine, HostTraffic } from "../../../core/network/egress-log.ts";
import type { EgressJournal } from "../../../core/ports/runtime.ts";
import { egressLineId, egressLogFile, olderEgressLogFile, readEgressLine } from "../../../protocols/egress-log.ts";
import { hostCountsFile } from "../../../protocols/traffic-counts.ts";
import { isMissing } from "../storage/json-file.ts";
import { readFormat } from "../storage/read-format.ts";
import { logChangedAt, newestLines } from "./egress-tail.ts";
import { readPorts } from "./port-meters.ts";
import { readCounts } from "./traffic-counts.ts";

export interface EgressJournalOptions {
  /** folder of the machine's log; its content is not trusted, as the egress process writes it */
  folder: string;
  /** folder with the counts of ports */
  portsFolder: string;
  /** resolves when all decisions until now are in the files, or the egress process does not answer */
  flush: () => Promise<void>;
  /** resolves when the counts of ports are in their file */
  flushPorts: () => Promise<void>;
  /** whether the machine has ended */
  ended: () => boolean;
}

/** how often a follower reads, in ms: as often as the egress process writes */
const runEvery = 250;
/** how long after a machine's end its last connections may still be logged, in ms */
const lastWords = 500;
const batch = 500;

export function egressJournal(options: EgressJournalOptions): EgressJournal {
  const { folder, portsFolder, flush, flushPorts, ended } = options;
  return {
    async lines({ after, limit }) {
      await flush();
      const lines = await new LineReader(folder, after).read(limit + 1);
      return { lines: lines.slice(0, limit), more: lines.length > limit };
    },
    newest: (wanted) => newestLines(folder, wanted),
    changedAt: () => logChangedAt(folder),
    async hosts() {
      await flush();
      const counts = await readCounts(join(folder, hostCountsFile));
      return Object.entries(counts).map(
        ([host, { count, ...bytes }]): HostTraffic => ({ host, connections: count, ...bytes }),
      );
    },
    async ports() {
      await flushPorts();
      return readPorts(portsFolder);
    },
    async *follow({ after, signal }) {
      const reader = new LineReader(folder, after);
      const wasOver = ended();
      for (;;) {
        const over = ended();
        if (over && !wasOver) await pause(lastWords, undefined, { signal }).catch(() => undefined);
        if (over) await flush();
        for (let lines = await reader.read(batch); lines.length > 0; lines = await reader.read(batch)) {
          for (const line of lines) {
            if (signal?.aborted) return;
            yield line;
          }
        }
        if (over || signal?.aborted) return;
        await pause(runEvery, undefined, { signal }).catch(() => undefined);
      }
    },
  };
}

/** Goes on where it stopped: in the file that it read last, if that is still the one that is written to. */
class LineReader {
  readonly #folder: string;
  /** of the last line that was handed out */
  #id: number;
  /** the file that is written to, and how far it has been read */
  #file: string | undefined;
  #offset = 0;

  constructor(folder: string, after: number) {
    this.#folder = folder;
    this.#id = after;
  }

  /** at most so many lines; none when there are no more */
  async read(limit: number): Promise<EgressLine[]> {
    if (await this.#isAtEnd()) return [];
    for (;;) {
      await using files = await openBoth(this.#folder);
      const { newer, older } = files;
      const file = identityOf(await newer?.stat());
      // The one that was written to has just become the older one.
      if (file !== undefined && file === identityOf(await older?.stat())) continue;
      const lines: EgressLine[] = [];
      if (file === undefined || file !== this.#file) {
        this.#file = undefined;
        this.#offset = 0;
        this.#take(lines, await contentOf(older, 0), limit);
        if (lines.length >= limit) return lines;
      }
      const content = await contentOf(newer, this.#offset);
      this.#offset += this.#take(lines, content, limit);
      this.#file = file;
      return lines;
    }
  }

  /** whether nothing was written since: one stat instead of several reads */
  async #isAtEnd(): Promise<boolean> {
    if (this.#file === undefined) return false;
    const there = await stat(join(this.#folder, egressLogFile)).catch(() => undefined);
    return there !== undefined && there.size === this.#offset && identityOf(there) === this.#file;
  }

  /** the lines after the last one, as far as there is room; returns how many bytes are done with */
  #take(lines: EgressLine[], content: Buffer, limit: number): number {
    let at = 0;
    while (lines.length < limit) {
      const end = content.indexOf(0x0a, at);
      if (end < 0) break;
      // Most of these lines have been read before: skip them without parsing.
      const id = egressLineId(content.toString("latin1", at, at + 32));
      const from = at;
      const line = id > this.#id ? readFormat(() => readEgressLine(content.toString("utf8", from, end))) : undefined;
      if (line && id > this.#id + 1) {
        // Read on from the start: the line that was searched for is not in this file.
        lines.push({ id: id - 1, at: line.at, forgotten: id - 1 - this.#id });
        this.#id = id - 1;
        continue;
      }
      if (line) {
        lines.push(line);
        this.#id = id;
      }
      at = end + 1;
    }
    return at;
  }
}

interface Files extends AsyncDisposable {
  newer: FileHandle | undefined;
  older: FileHandle | undefined;
}

async function openBoth(folder: string): Promise<Files> {
  const newer = await openIfThere(join(folder, egressLogFile));
  const older = await openIfThere(join(folder, olderEgressLogFile)).catch(async (error) => {
    await newer?.close();
    throw error;
  });
  return {
    newer,
    older,
    async [Symbol.asyncDispose]() {
      await newer?.close();
      await older?.close();
    },
  };
}

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** numbers of files are given again, at other times */
function identityOf(file: Stats | undefined): string | undefined {
  return file && `${file.ino} ${file.birthtimeMs}`;
}

async function contentOf(file: FileHandle | undefined, from: number): Promise<Buffer> {
  const length = Math.max(0, ((await file?.stat())?.size ?? 0) - from);
  if (!file || length === 0) return Buffer.alloc(0);
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, from);
  return buffer.subarray(0, bytesRead);
}
