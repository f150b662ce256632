/** Limits how much work runs at a time, so that other requests are still answered. */

/**
 * Lets a few callers work at a time. Teams take turns, and callers of one team are served in order of arrival, so that
 * thousands of callers of one team do not delay another team. Slow work stops counting after `patience` ms.
 */
export class Turns {
  readonly #most: number;
  readonly #patience: number;
  /** waiting callers by team; the first team is next */
  readonly #waiting = new Map<string, (() => void)[]>();
  #busy = 0;

  /** `patience` is how long one caller may delay the waiting ones, in ms */
  constructor(most: number, patience: number) {
    this.#most = most;
    this.#patience = patience;
  }

  /** a caller whose signal aborts while it waits gives up its place, and its work never begins */
  async take<T>(team: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.#busy < this.#most) this.#busy++;
    else await this.#turn(team, signal);
    let isOver = false;
    const over = () => {
      if (isOver) return;
      isOver = true;
      clearTimeout(late);
      this.#next();
    };
    const late = setTimeout(over, this.#patience).unref();
    try {
      return await work();
    } finally {
      over();
    }
  }

  #turn(team: string, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = () => {
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      const leave = () => {
        const left = this.#waiting.get(team)?.filter((each) => each !== begin) ?? [];
        if (left.length > 0) this.#waiting.set(team, left);
        else this.#waiting.delete(team);
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", leave, { once: true });
      const queue = this.#waiting.get(team);
      if (queue) queue.push(begin);
      else this.#waiting.set(team, [begin]);
    });
  }

  #next(): void {
    const [first] = this.#waiting;
    if (!first) {
      this.#busy--;
      return;
    }
    const [team, queue] = first;
    const begin = queue.shift();
    this.#waiting.delete(team);
    if (queue.length > 0) this.#waiting.set(team, queue);
    begin?.();
  }
}

/** Lets a few callers of each team work at a time, in order of arrival. Teams do not wait for one another. */
export class Lines {
  readonly #most: number;
  readonly #lines = new Map<string, { busy: number; waiting: (() => void)[] }>();

  constructor(most: number) {
    this.#most = most;
  }

  async take<T>(team: string, work: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(team) ?? { busy: 0, waiting: [] };
    this.#lines.set(team, line);
    if (line.busy < this.#most) line.busy++;
    else await new Promise<void>((resolve) => line.waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = line.waiting.shift();
      if (next) next();
      else if (--line.busy === 0) this.#lines.delete(team);
    }
  }
}

/** Counts what callers keep for a while, such as files on the disk: a few for each team, and some more for all teams. */
export class Shares {
  readonly #most: { ofTeam: number; ofAll: number };
  readonly #held = new Map<string, number>();
  #all = 0;

  constructor(most: { ofTeam: number; ofAll: number }) {
    this.#most = most;
  }

  /** undefined if there are too many already; otherwise what gives the share back, once, however often it is called */
  take(team: string): (() => void) | undefined {
    const held = this.#held.get(team) ?? 0;
    if (held >= this.#most.ofTeam || this.#all >= this.#most.ofAll) return undefined;
    this.#add(team, 1);
    let isHeld = true;
    return () => {
      if (isHeld) this.#add(team, -1);
      isHeld = false;
    };
  }

  #add(team: string, count: number): void {
    const held = (this.#held.get(team) ?? 0) + count;
    this.#all += count;
    if (held === 0) this.#held.delete(team);
    else this.#held.set(team, held);
  }
}

export async function eachBounded<T>(
  most: number,
  items: Iterable<T>,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const left = items[Symbol.iterator]();
  const worker = async () => {
    for (let next = left.next(); !next.done; next = left.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: most }, worker));
}
