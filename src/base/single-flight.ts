/** Work that runs once at a time for each key: who asks while it runs gets the same result. */

export class SingleFlight<T> {
  readonly #flights = new Map<string, Promise<T>>();

  /** the result of the work that is under way for this key, or of this work, which then begins */
  run(key: string, work: () => Promise<T>): Promise<T> {
    return this.get(key) ?? this.start(key, work);
  }

  /** begins the work; what was under way for this key goes on, and is no longer the one that others get */
  start(key: string, work: () => Promise<T>): Promise<T> {
    const flight = work().finally(() => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    });
    this.#flights.set(key, flight);
    return flight;
  }

  /** what is under way for this key */
  get(key: string): Promise<T> | undefined {
    return this.#flights.get(key);
  }

  has(key: string): boolean {
    return this.#flights.has(key);
  }

  keys(): string[] {
    return [...this.#flights.keys()];
  }

  /** resolves when what is under way for this key is over, whether it succeeded or failed */
  async settled(key: string): Promise<void> {
    await this.#flights.get(key)?.catch(() => undefined);
  }
}

/** The same without keys: one kind of work, which runs once at a time. */
export class SharedRun<T> {
  #current: Promise<T> | undefined;

  /** the result of the run that is under way, or of this work, which then begins */
  run(work: () => Promise<T>): Promise<T> {
    this.#current ??= work().finally(() => {
      this.#current = undefined;
    });
    return this.#current;
  }

  /** what is under way */
  get current(): Promise<T> | undefined {
    return this.#current;
  }
}
