/**
 * Which images callers booted from lately, besides the default one, and how many of the pool's machines each gets. An
 * image counts from its second use on, because many are used only once. The latest uses have a machine each, so the
 * image that was not used for the longest time loses its machines first.
 */

/** how long a use counts, in ms */
export const recency = 15 * 60_000;
/** most uses that are remembered */
const longest = 256;

interface Use {
  image: string;
  /** in ms since any moment */
  at: number;
}

export class RecentImages {
  /** most machines of all these images together */
  readonly #most: number;
  /** newest first */
  #uses: Use[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  used(image: string, now: number): void {
    this.#uses.unshift({ image, at: now });
    if (this.#uses.length > longest) this.#uses.pop();
  }

  /** the number of machines for each image, that of the last use first */
  wanted(now: number): Map<string, number> {
    this.#uses = this.#uses.filter(({ at }) => now - at < recency);
    const names = this.#uses.map(({ image }) => image);
    const again = names.filter((image) => names.indexOf(image) !== names.lastIndexOf(image)).slice(0, this.#most);
    const counts = new Map<string, number>();
    for (const image of again) counts.set(image, (counts.get(image) ?? 0) + 1);
    return counts;
  }

  forget(image: string): void {
    this.#uses = this.#uses.filter((use) => use.image !== image);
  }
}
