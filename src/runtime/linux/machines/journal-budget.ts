/**
 * Limits the size of all journals of one machine. They lie outside of its disk limit and outlive its commands, so without
 * a bound a sandbox could fill the store by printing. The oldest segments are deleted first, those of commands that are
 * followed last; a reader learns how many bytes are missing, as it is for a single command that printed too much (journal.ts).
 */

import { lstatSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

export interface JournalBudgetOptions {
  /** folder of the machine's journals */
  directory: string;
  /** bytes that they may take */
  most: number;
  /** whether a command runs: the segment that it writes into stays */
  isRunning: (command: string) => boolean;
  /** whether somebody follows its output: the other commands' output is deleted before its own */
  isRead: (command: string) => boolean;
}

/** share of the budget that is left after segments were dropped, so that the folder is not walked for every byte */
const kept = 0.75;
/** estimate of the most that a byte of output takes on disk; the next walk counts exactly */
const perByte = 2;

interface Segment {
  path: string;
  command: string;
  start: string;
  size: number;
  writtenAt: number;
  isRead: boolean;
}

export class JournalBudget {
  readonly #options: JournalBudgetOptions;
  #used = 0;

  constructor(options: JournalBudgetOptions) {
    this.#options = options;
  }

  /** adds this many bytes of output */
  grew(bytes: number): void {
    this.#used += bytes * perByte;
    if (this.#used > this.#options.most) this.recount();
  }

  /** counts what is there, and drops what is too much; in a store that has failed, the next time */
  recount(): void {
    try {
      this.#recount();
    } catch {
      this.#used = 0;
    }
  }

  #recount(): void {
    const segments = this.#segments().sort(
      (a, b) => Number(a.isRead) - Number(b.isRead) || a.writtenAt - b.writtenAt || (a.start < b.start ? -1 : 1),
    );
    this.#used = segments.reduce((sum, { size }) => sum + size, 0);
    if (this.#used <= this.#options.most) return;
    const newest = new Map(segments.map(({ command, start }) => [command, start]));
    for (const { path, command, start, size } of segments) {
      if (this.#used <= this.#options.most * kept) return;
      if (newest.get(command) === start && this.#options.isRunning(command)) continue;
      rmSync(path, { force: true });
      this.#used -= size;
    }
  }

  #segments(): Segment[] {
    const { directory, isRead } = this.#options;
    return readdirSync(directory).flatMap((name) => {
      const [, command, start] = /^(.+)\.([0-9a-f]{16})$/.exec(name) ?? [];
      const path = join(directory, name);
      // the agent deletes segments, too
      const facts = start === undefined ? undefined : lstatSync(path, { throwIfNoEntry: false });
      if (command === undefined || start === undefined || facts === undefined) return [];
      return [{ path, command, start, size: facts.size, writtenAt: facts.mtimeMs, isRead: isRead(command) }];
    });
  }
}
