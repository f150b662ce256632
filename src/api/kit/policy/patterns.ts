/** Checks the regular expressions of a network policy: they must be small and match in linear time (RE2). */

import { RE2JS } from "re2js";

/** most instructions of a compiled pattern; matching one character costs at most as many steps */
const mostSteps = 1_000;
/** rough bound that is checked before compiling, since compiling a large pattern takes long */
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
