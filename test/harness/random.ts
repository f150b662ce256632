/** Repeatable randomness: a seed determines every number. */

/** a sequence of numbers from 0 to 1 that a seed determines (mulberry32) */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** one of several values, with a probability in proportion to its shares */
export function drawn<T>(random: () => number, among: readonly (readonly [shares: number, value: T])[]): T {
  let at = random() * among.reduce((sum, [shares]) => sum + shares, 0);
  for (const [shares, value] of among) {
    at -= shares;
    if (at < 0) return value;
  }
  const last = among.at(-1);
  if (!last) throw new Error("There is nothing to draw from");
  return last[1];
}
