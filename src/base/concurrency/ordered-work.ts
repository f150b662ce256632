/** Runs work with the same key one after the other, in the order of the calls; work with other keys runs meanwhile. */

export class OrderedWork {
  /** the last work of each key, whether it succeeds or fails */
  readonly #last = new Map<string, Promise<unknown>>();

  /** the result of this work, which begins when all earlier work with this key is over */
  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const result = this.settled(key).then(work);
    const over = result
      .catch(() => undefined)
      .finally(() => {
        if (this.#last.get(key) === over) this.#last.delete(key);
      });
    this.#last.set(key, over);
    return result;
  }

  /** resolves when all work with this key that was given so far is over */
  async settled(key: string): Promise<void> {
    await this.#last.get(key);
  }
}
