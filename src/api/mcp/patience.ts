/** Waiting for what may never come, such as a program that reads its input: not longer than the caller's patience. */

import { SandkeepError } from "../../core/model/errors.ts";

export interface Patience {
  /** ms */
  longest: number;
  /** aborts when the caller does not want the answer any more */
  signal: AbortSignal;
  /** what is told when it took too long; the work itself goes on */
  words: string;
}

export async function within<T>(work: Promise<T>, { longest, signal, words }: Patience): Promise<T> {
  const over = AbortSignal.timeout(longest);
  const enough = AbortSignal.any([signal, over]);
  const late = new Promise<never>((_, reject) => {
    const giveUp = () => reject(signal.aborted ? signal.reason : new SandkeepError("timeout", words));
    if (enough.aborted) giveUp();
    else enough.addEventListener("abort", giveUp, { once: true });
  });
  return Promise.race([work, late]);
}
