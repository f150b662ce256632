/** Runs work once at a time for each key: callers that ask while it runs share its result. */

export class SingleFlight<T> {
  readonly #flights = new Map<string, Promise<T>>();

  /** the result of the running work for this key, or of this work, which is then started */
  run(key: string, work: () => Promise<T>): Promise<T> {
    return this.get(key) ?? this.start(key, work);
  }

  /** starts the work; running work for this key continues, but new callers get this one */
  start(key: string, work: () => Promise<T>): Promise<T> {
    const flight = work().finally(() => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    });
    this.#flights.set(key, flight);
    return flight;
  }

  /** the running work for this key */
  get(key: string): Promise<T> | undefined {
    return this.#flights.get(key);
  }

  has(key: string): boolean {
    return this.#flights.has(key);
  }

  keys(): string[] {
    return [...this.#flights.keys()];
  }

  /** resolves when the running work for this key has finished, whether it succeeded or failed */
  async settled(key: string): Promise<void> {
    await this.#flights.get(key)?.catch(() => undefined);
  }
}

/** The same without keys: one kind of work, which runs once at a time. */
export class SharedRun<T> {
  #current: Promise<T> | undefined;

  /** the result of the current run, or of this work, which is then started */
  run(work: () => Promise<T>): Promise<T> {
    this.#current ??= work().finally(() => {
      this.#current = undefined;
    });
    return this.#current;
  }

  /** the current run */
  get current(): Promise<T> | undefined {
    return this.#current;
  }
}
