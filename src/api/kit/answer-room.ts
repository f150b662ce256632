/** How much each team's answers to requests with an `Idempotency-Key` take of the disk, since the daemon started. */

/** most bytes in a day, the time after which answers are deleted */
const mostBytes = 1 << 30;
const day = 86_400_000;

export class AnswerRoom {
  readonly #clock: () => number;
  readonly #taken = new Map<string, { since: number; bytes: number }>();

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  isFull(team: string): boolean {
    return this.#of(team).bytes >= mostBytes;
  }

  take(team: string, bytes: number): void {
    this.#of(team).bytes += bytes;
  }

  #of(team: string): { bytes: number } {
    const now = this.#clock();
    const known = this.#taken.get(team);
    // A clock that was set back begins a day, too.
    if (known && Math.abs(now - known.since) < day) return known;
    const taken = { since: now, bytes: 0 };
    this.#taken.set(team, taken);
    return taken;
  }
}
