/**
 * How many connections of an egress log were allowed and refused over time. What was counted once is kept, so that each
 * request reads only newer lines, and at most so many: the one after it goes on from there.
 */

import { keepLast } from "../../base/bounded-map.ts";
import type { EgressJournal } from "../ports/runtime.ts";
import type { Parts } from "../ports/store.ts";
import type { EgressLine } from "./egress-log.ts";

export interface EgressTally {
  /** parts in which there were any, by their index from 0 on */
  parts: ({ part: number } & Counts)[];
  /** whether the log has lost no line, and all were counted */
  isWhole: boolean;
}

interface Counts {
  allowed: number;
  refused: number;
}

/** What was counted of a log. */
interface Counted {
  /** position of the last line that was read */
  after: number;
  /** length of a slot, in ms */
  grain: number;
  /** by the number of the slot since 1970 */
  slots: Map<number, Counts>;
  isWhole: boolean;
  /** the read under way, or the last one */
  reading: Promise<void>;
}

export interface TallyLimits {
  /** most lines that a request reads of a log */
  lines: number;
  /** lines that are read at once */
  batch: number;
  /** most slots of a log; with more, they become twice as long */
  slots: number;
  /** most logs whose counts are kept */
  logs: number;
}

const usualLimits: TallyLimits = { lines: 10_000, batch: 1000, slots: 2048, logs: 50 };
const shortestGrain = 1000;

export class EgressTallies {
  readonly #limits: TallyLimits;
  readonly #counted = new Map<string, Counted>();

  constructor(limits: TallyLimits = usualLimits) {
    this.#limits = limits;
  }

  async of(id: string, journal: Pick<EgressJournal, "lines">, { from, step, count }: Parts): Promise<EgressTally> {
    const counted = this.#of(id);
    let isRead = false;
    counted.reading = counted.reading
      .catch(() => undefined)
      .then(async () => {
        isRead = await this.#readOn(counted, journal);
      });
    await counted.reading;
    const parts = new Map<number, Counts>();
    for (const [slot, { allowed, refused }] of counted.slots) {
      const part = Math.floor((slot * counted.grain - from) / step);
      // The slot in which the time begins may have begun before.
      const isFirst = part < 0 && (slot + 1) * counted.grain > from;
      if (part >= count || (part < 0 && !isFirst)) continue;
      add(parts, Math.max(0, part), { allowed, refused });
    }
    return {
      parts: [...parts].map(([part, counts]) => ({ part, ...counts })).toSorted((one, other) => one.part - other.part),
      isWhole: counted.isWhole && isRead,
    };
  }

  #of(id: string): Counted {
    const known = this.#counted.get(id);
    // Moves it to the end: the log that was asked for longest ago gives way.
    this.#counted.delete(id);
    const counted = known ?? {
      after: 0,
      grain: shortestGrain,
      slots: new Map(),
      isWhole: true,
      reading: Promise.resolve(),
    };
    this.#counted.set(id, counted);
    keepLast(this.#counted, this.#limits.logs);
    return counted;
  }

  /** whether it has read all lines */
  async #readOn(counted: Counted, journal: Pick<EgressJournal, "lines">): Promise<boolean> {
    for (let read = 0; read < this.#limits.lines; ) {
      const { lines, more } = await journal.lines({ after: counted.after, limit: this.#limits.batch });
      for (const line of lines) this.#count(counted, line);
      counted.after = lines.at(-1)?.id ?? counted.after;
      if (!more) return true;
      read += Math.max(1, lines.length);
    }
    return false;
  }

  #count(counted: Counted, line: EgressLine): void {
    if (!("allowed" in line)) {
      counted.isWhole = false;
      return;
    }
    // Others count only bytes of connections that an earlier line has.
    if (line.count === 0) return;
    const counts = { allowed: line.allowed ? line.count : 0, refused: line.allowed ? 0 : line.count };
    add(counted.slots, Math.floor(line.at / counted.grain), counts);
    if (counted.slots.size <= this.#limits.slots) return;
    const finer = counted.slots;
    counted.slots = new Map();
    counted.grain *= 2;
    for (const [slot, each] of finer) add(counted.slots, Math.floor(slot / 2), each);
  }
}

function add(all: Map<number, Counts>, key: number, { allowed, refused }: Counts): void {
  const counts = all.get(key) ?? { allowed: 0, refused: 0 };
  all.set(key, { allowed: counts.allowed + allowed, refused: counts.refused + refused });
}
