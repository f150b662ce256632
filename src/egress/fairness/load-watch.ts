/**
 * Finds connections that keep this process busy without work that waits for a turn: for example HTTP/2 frames without
 * requests, which are read and dropped. At each request of a machine it checks whether the process was almost always busy
 * since the last check; if so, the connections with the most bytes are not read until their machine has had a turn for
 * them. A machine that has done little lately is left alone.
 */

export interface Watched {
  /** bytes that were read of it so far */
  bytes(): number;
  /** stops reading it */
  hold(): void;
  /** reads it again */
  release(): void;
}

interface Payer {
  spend(cost: number): boolean;
  turn(cost: number): Promise<void>;
}

export interface LoadWatchOptions {
  /** ms */
  now: () => number;
  /** ms that this process has had something to do so far, and nothing */
  used: () => { active: number; idle: number };
}

/** shortest time between two checks, in ms */
const every = 5;
/** ratio of busy time to idle time from which on there is load */
const overloaded = 1;
/** a connection that took less than this part of what connections took on average is not what keeps us busy */
const leastPart = 0.25;

interface Seen {
  payer: Payer;
  bytes: number;
  held: boolean;
}

export class LoadWatch {
  readonly #options: LoadWatchOptions;
  readonly #watched = new Map<Watched, Seen>();
  #before = { at: 0, active: 0, idle: 0 };
  #wasOverloaded = false;

  constructor(options: LoadWatchOptions) {
    this.#options = options;
  }

  /** returns a function that ends it */
  watch(watched: Watched, payer: Payer): () => void {
    this.#watched.set(watched, { payer, bytes: watched.bytes(), held: false });
    return () => void this.#watched.delete(watched);
  }

  look(): void {
    if (this.#watched.size === 0) return;
    const at = this.#options.now();
    if (at - this.#before.at < every) return;
    const { active, idle } = this.#options.used();
    const busy = active - this.#before.active;
    const isStrained = busy > overloaded * (idle - this.#before.idle);
    this.#before = { at, active, idle };
    // The first time is for comparison.
    if (isStrained) this.#share(this.#wasOverloaded ? busy : 0);
    this.#wasOverloaded = isStrained;
  }

  #share(busy: number): void {
    const took = [...this.#watched].flatMap(([watched, seen]) => {
      const bytes = watched.bytes() - seen.bytes;
      seen.bytes += bytes;
      return bytes > 0 ? { watched, seen, bytes } : [];
    });
    const all = took.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const { watched, seen, bytes } of took) {
      if (bytes < (leastPart * all) / took.length || seen.held || busy === 0) continue;
      const cost = (busy * 1000 * bytes) / all;
      if (!seen.payer.spend(cost)) this.#hold(watched, seen, cost);
    }
  }

  #hold(watched: Watched, seen: Seen, cost: number): void {
    seen.held = true;
    watched.hold();
    void seen.payer.turn(cost).then(() => {
      seen.held = false;
      if (this.#watched.has(watched)) watched.release();
    });
  }
}
