/** What goes wrong is told on stderr, but not without end: a sandbox could make it happen as often as it likes. */

import { newAllowance } from "../fairness/allowance.ts";

export type Complain = (sentence: string, error: unknown) => void;

/** told all at first, then one a second; of the rest, how many there were */
export function newComplaints(now: () => number, write: (...words: unknown[]) => void = console.error): Complain {
  const allowance = newAllowance({ atOnce: 20, perSecond: 1, now });
  let untold = 0;
  return (sentence, error) => {
    if (!allowance.take()) {
      untold++;
      return;
    }
    write(untold === 0 ? sentence : `${sentence} (and ${untold} times something else)`, error);
    untold = 0;
  };
}
