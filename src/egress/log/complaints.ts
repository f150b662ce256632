/**
 * What goes wrong is told on stderr, a line of JSON for each event, which the daemon takes into its log. It is not told
 * without end: a sandbox could make it happen as often as it likes.
 */

import { messageOf } from "../../core/model/errors.ts";
import { newAllowance } from "../fairness/allowance.ts";

export type Complain = (sentence: string, error: unknown) => void;

/** told all at first, then one a second; of the rest, how many there were */
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
