/** Counts what happened within the last minute, in constant memory: it counts by the second. */

const seconds = 60;

export class RecentCount {
  /** in ms since any moment */
  readonly #now: () => number;
  /** the number of each second that had any */
  readonly #counts = new Map<number, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  add(): void {
    const second = this.#forget();
    this.#counts.set(second, (this.#counts.get(second) ?? 0) + 1);
  }

  get count(): number {
    this.#forget();
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** returns the current second */
  #forget(): number {
    const current = Math.floor(this.#now() / 1000);
    for (const second of this.#counts.keys()) if (second <= current - seconds) this.#counts.delete(second);
    return current;
  }
}
