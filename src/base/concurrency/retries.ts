/**
 * Retries work that has to succeed in the end, with growing pauses; for example, ending a session while the disk is
 * full.
 */

/** called with the error of each failed attempt, and its session */
type LogError = (error: unknown, about?: { session: string }) => void;

/** ms until it is tried again, at first and at most */
const first = 500;
const longest = 30_000;

export class Retries {
  readonly #logError: LogError;
  readonly #timers = new Map<string, NodeJS.Timeout>();
  #isClosed = false;

  constructor(logError: LogError) {
    this.#logError = logError;
  }

  /** retries the work until it succeeds; a session has at most one retry pending */
  again(session: string, work: () => Promise<unknown>, pause = first): void {
    if (this.#isClosed || this.#timers.has(session)) return;
    const timer = setTimeout(() => {
      work().then(
        () => this.#timers.delete(session),
        (error: unknown) => {
          this.#timers.delete(session);
          this.#logError(error, { session });
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
