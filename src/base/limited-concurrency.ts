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

  async take<T>(team: string, work: () => Promise<T>): Promise<T> {
    if (this.#busy < this.#most) this.#busy++;
    else await this.#turn(team);
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

  #turn(team: string): Promise<void> {
    return new Promise((resolve) => {
      const queue = this.#waiting.get(team);
      if (queue) queue.push(resolve);
      else this.#waiting.set(team, [resolve]);
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
