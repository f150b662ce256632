/** Work that has to succeed in the end, such as the end of a session while the disk is full: tried again, ever more rarely. */

/** told why an attempt failed, and for which session */
type Trouble = (error: unknown, about?: { session: string }) => void;

/** ms until it is tried again, at first and at most */
const first = 500;
const longest = 30_000;

export class Retries {
  readonly #trouble: Trouble;
  readonly #timers = new Map<string, NodeJS.Timeout>();
  #isClosed = false;

  constructor(trouble: Trouble) {
    this.#trouble = trouble;
  }

  /** tries it again in a while, and again until it succeeds; nothing is tried twice at once for one session */
  again(session: string, work: () => Promise<unknown>, pause = first): void {
    if (this.#isClosed || this.#timers.has(session)) return;
    const timer = setTimeout(() => {
      work().then(
        () => this.#timers.delete(session),
        (error: unknown) => {
          this.#timers.delete(session);
          this.#trouble(error, { session });
          this.again(session, work, Math.min(pause * 2, longest));
        },
      );
    }, pause);
    this.#timers.set(session, timer.unref());
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
  }
}
