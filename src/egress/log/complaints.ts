/**
 * Writes errors to stderr, one line of JSON each, which the daemon takes into its log. The number of lines is limited,
 * because a sandbox could cause errors as often as it likes.
 */

import { messageOf } from "../../core/model/errors.ts";
import { newAllowance } from "../fairness/allowance.ts";

export type Complain = (sentence: string, error: unknown) => void;

/** writes the first errors, then one a second with the number of those left out */
export function newComplaints(now: () => number, write: Complain = tell): Complain {
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

/** in the form that runtime/linux/host/launcher-log.ts reads */
export function tell(sentence: string, error: unknown): void {
  const { stack } = error instanceof Error ? error : {};
  console.error(JSON.stringify({ process: "egress", sentence: `${sentence} ${messageOf(error)}`, stack }));
}
