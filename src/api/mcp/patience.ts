/** Limits the wait for work that may never finish, such as a write to a program that does not read its input. */

import { unlessAborted } from "../../base/concurrency/waits.ts";
import { SandkeepError } from "../../core/model/errors.ts";

export interface Patience {
  /** longest wait, in ms */
  longest: number;
  /** aborts when the caller cancels */
  signal: AbortSignal;
  /** message of the error after a timeout; the work itself goes on */
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
