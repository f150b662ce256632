/**
 * A signal that aborts with either of two. AbortSignal.any() does the same with weak references, which the garbage
 * collector has to look after: too much for every request.
 */

import { setMaxListeners } from "node:events";

export interface EitherSignal {
  signal: AbortSignal;
  /** call this at the end: the signals may live longer */
  release(): void;
}

export function eitherSignal(one: AbortSignal, other: AbortSignal | undefined): EitherSignal {
  if (!other) return { signal: one, release: () => undefined };
  const both = new AbortController();
  const abort = ({ target }: Event) => both.abort((target as AbortSignal).reason); // only signals have this listener
  for (const signal of [one, other]) {
    // Any number of requests may wait for the same one.
    setMaxListeners(0, signal);
    if (signal.aborted) both.abort(signal.reason);
    else signal.addEventListener("abort", abort);
  }
  const release = () => {
    one.removeEventListener("abort", abort);
    other.removeEventListener("abort", abort);
  };
  return { signal: both.signal, release };
}
