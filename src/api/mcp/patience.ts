/** Waiting for what may never come, such as a program that reads its input: not longer than the caller's patience. */

import { unlessAborted } from "../../base/waits.ts";
import { SandkeepError } from "../../core/model/errors.ts";

export interface Patience {
  /** ms */
  longest: number;
  /** aborts when the caller does not want the answer any more */
  signal: AbortSignal;
  /** what is told when it took too long; the work itself goes on */
  words: string;
}

export async function patiently<T>(work: Promise<T>, { longest, signal, words }: Patience): Promise<T> {
  const enough = AbortSignal.any([signal, AbortSignal.timeout(longest)]);
  const done = await unlessAborted(
    work.then((value) => ({ value })),
    enough,
  );
  if (done) return done.value;
  signal.throwIfAborted();
  throw new SandkeepError("timeout", words);
}
