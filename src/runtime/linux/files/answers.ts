/** Answers to requests that are made without waiting for each. */

/** A bounded number of pending requests; the next add() or all() throws the first error. */
export class Answers {
  readonly #limit: number;
  readonly #waiting = new Set<Promise<void>>();
  #error: unknown;

  constructor(limit: number) {
    this.#limit = limit;
  }

  async add(answer: Promise<unknown>): Promise<void> {
    const settled: Promise<void> = answer.then(
      () => void this.#waiting.delete(settled),
      (error) => {
        this.#error ??= error;
        this.#waiting.delete(settled);
      },
    );
    this.#waiting.add(settled);
    while (this.#waiting.size >= this.#limit) await Promise.race(this.#waiting);
    if (this.#error !== undefined) throw this.#error;
  }

  async all(): Promise<void> {
    await Promise.all(this.#waiting);
    if (this.#error !== undefined) throw this.#error;
  }
}
