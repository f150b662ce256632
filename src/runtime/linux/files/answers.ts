/** Answers to requests that are made without waiting for each. */

/** A bounded number of pending requests; the next add() or all() throws the first error. */
export class Answers {
  readonly #limit: number;
  #pending = 0;
  #failure: { error: unknown } | undefined;
  /** called when there is room for another request, or when none is pending */
  #wake: (() => void) | undefined;
  #wakeAt = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** for one caller at a time, as is all() */
  async add(answer: Promise<unknown>): Promise<void> {
    this.#pending++;
    answer.then(
      () => this.#settle(),
      (error) => {
        this.#failure ??= { error };
        this.#settle();
      },
    );
    if (this.#pending >= this.#limit) await this.#until(this.#limit - 1);
    if (this.#failure) throw this.#failure.error;
  }

  async all(): Promise<void> {
    await this.#until(0);
    if (this.#failure) throw this.#failure.error;
  }

  #settle(): void {
    this.#pending--;
    if (this.#pending <= this.#wakeAt) this.#wake?.();
  }

  #until(pending: number): Promise<void> | undefined {
    if (this.#pending <= pending) return undefined;
    this.#wakeAt = pending;
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}
