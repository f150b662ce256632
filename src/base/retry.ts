/** Work that has to succeed in the end, such as the end of a session while the disk is full: tried again, ever more rarely. */

/** ms until it is tried again, at first and at most */
const first = 500;
const longest = 30_000;

export class Persistence {
  readonly #trouble: (error: unknown) => void;
  readonly #timers = new Map<string, NodeJS.Timeout>();
  #isClosed = false;

  constructor(trouble: (error: unknown) => void) {
    this.#trouble = trouble;
  }

  /** tries it again in a while, and again until it succeeds; nothing is tried twice at once under one name */
  again(name: string, work: () => Promise<unknown>, pause = first): void {
    if (this.#isClosed || this.#timers.has(name)) return;
    const timer = setTimeout(() => {
      work().then(
        () => this.#timers.delete(name),
        (error: unknown) => {
          this.#timers.delete(name);
          this.#trouble(error);
          this.again(name, work, Math.min(pause * 2, longest));
        },
      );
    }, pause);
    this.#timers.set(name, timer.unref());
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
  }
}
