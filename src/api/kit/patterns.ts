/** Which regular expressions a network policy may have: those that are matched in linear time (RE2), and are not large. */

import { RE2JS } from "re2js";

/** steps of the machine that a pattern is made into: as many as a character of a text may cost */
const mostSteps = 1_000;
/** a rough bound that is known before the machine is made, as making a large one takes long */
const roughly = 16_000;

export function isPattern(text: string): boolean {
  const repeats = [...text.matchAll(/\{(\d+)(?:,(\d*))?\}/g)].map(([, least, most]) => Number(most || least));
  if (text.length * repeats.reduce((sum, each) => sum + each, 1) > roughly) return false;
  try {
    return RE2JS.compile(text).programSize() <= mostSteps;
  } catch {
    return false;
  }
}
