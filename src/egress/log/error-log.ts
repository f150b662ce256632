/**
 * Writes errors to stderr, one line of JSON each, which the daemon takes into its log. The number of lines is limited,
 * because a sandbox could cause any number of errors.
 */

import { messageOf } from "../../core/model/errors.ts";
import { newAllowance } from "../fairness/allowance.ts";

export type LogError = (sentence: string, error: unknown) => void;

/** writes the first errors, then one a second with the number of those left out */
export function limitedErrorLog(now: () => number, write: LogError = writeError): LogError {
  const allowance = newAllowance({ atOnce: 20, perSecond: 1, now });
  let leftOut = 0;
  return (sentence, error) => {
    if (!allowance.take()) {
      leftOut++;
      return;
    }
    write(leftOut === 0 ? sentence : `${sentence} (and ${leftOut} other errors)`, error);
    leftOut = 0;
  };
}

/** in the form that runtime/linux/host/launcher-log.ts reads */
export function writeError(sentence: string, error: unknown): void {
  const { stack } = error instanceof Error ? error : {};
  console.error(JSON.stringify({ process: "egress", sentence: `${sentence} ${messageOf(error)}`, stack }));
}
