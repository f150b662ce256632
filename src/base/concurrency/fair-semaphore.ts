/** Limits how many callers work at a time, so that no team keeps another from working. */

export interface SemaphoreLimits {
  /** callers of all teams at a time; default any number */
  ofAll?: number;
  /** callers of one team at a time; default any number */
  ofTeam?: number;
  /** callers of one team that may wait; further ones get a QueueFull error. Default any number */
  waiting?: number;
  /** how long work counts, in ms; slower work continues, but the next caller begins. Default until it ends */
  patience?: number;
}

/** Too many callers of the team wait already. */
export class QueueFull extends Error {
  override readonly name = "QueueFull";
}

/**
 * A semaphore that teams share. Teams take turns, and callers of one team are served in order of arrival, so that
 * thousands of callers of one team do not delay another team.
 */
export class FairSemaphore {
  readonly #limits: Required<SemaphoreLimits>;
  #working = 0;
  readonly #workingOf = new Map<string, number>();
  /** waiting callers by team; the first team that may work is next */
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor({
    ofAll = Number.POSITIVE_INFINITY,
    ofTeam = Number.POSITIVE_INFINITY,
    waiting = Number.POSITIVE_INFINITY,
    patience = Number.POSITIVE_INFINITY,
  }: SemaphoreLimits) {
    this.#limits = { ofAll, ofTeam, waiting, patience };
  }

  /** does the work when it is the caller's turn; a caller whose signal aborts first never begins */
  async run<T>(team: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    // Without a wait, the work begins at once.
    const leave = this.tryEnter(team) ?? (await this.#queue(team, signal));
    try {
      return await work();
    } finally {
      leave();
    }
  }

  /** resolves when it is the caller's turn, with the function that ends it; as often as it is called, it counts once */
  async enter(team: string, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    return this.tryEnter(team) ?? this.#queue(team, signal);
  }

  /** the same without waiting; undefined if the caller would have to wait */
  tryEnter(team: string): (() => void) | undefined {
    return this.#hasRoom(team) ? this.#begin(team) : undefined;
  }

  #queue(team: string, signal: AbortSignal | undefined): Promise<() => void> {
    const queue = this.#waiting.get(team) ?? [];
    if (queue.length >= this.#limits.waiting) return Promise.reject(new QueueFull("too many wait already"));
    this.#waiting.set(team, queue);
    return new Promise((resolve, reject) => {
      const begin = () => {
        signal?.removeEventListener("abort", leave);
        resolve(this.#begin(team));
      };
      const leave = () => {
        queue.splice(queue.indexOf(begin), 1);
        if (queue.length === 0) this.#waiting.delete(team);
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", leave, { once: true });
      queue.push(begin);
    });
  }

  #begin(team: string): () => void {
    this.#count(team, 1);
    let isOver = false;
    const end = () => {
      if (isOver) return;
      isOver = true;
      clearTimeout(late);
      this.#count(team, -1);
      this.#next();
    };
    const { patience } = this.#limits;
    const late = Number.isFinite(patience) ? setTimeout(end, patience).unref() : undefined;
    return end;
  }

  #next(): void {
    for (const [team, queue] of this.#waiting) {
      if (!this.#hasRoom(team)) continue;
      const begin = queue.shift();
      // Behind all other teams.
      this.#waiting.delete(team);
      if (queue.length > 0) this.#waiting.set(team, queue);
      begin?.();
      return;
    }
  }

  #hasRoom(team: string): boolean {
    return this.#working < this.#limits.ofAll && (this.#workingOf.get(team) ?? 0) < this.#limits.ofTeam;
  }

  #count(team: string, by: 1 | -1): void {
    this.#working += by;
    const working = (this.#workingOf.get(team) ?? 0) + by;
    if (working === 0) this.#workingOf.delete(team);
    else this.#workingOf.set(team, working);
  }
}
