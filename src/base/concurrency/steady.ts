/** Reads bytes from a client that must keep sending, so that a slow one does not hold what it has for ever. */

import { within } from "./waits.ts";

export interface Pace {
  /** longest wait for the next piece, in ms */
  idle: number;
  /** longest time for all pieces, in ms */
  longest: number;
  /** ms */
  now: () => number;
  /** the error for a client that is too slow */
  late: () => Error;
}

export async function* steady(
  bytes: AsyncIterable<Uint8Array>,
  { idle, longest, now, late }: Pace,
): AsyncGenerator<Uint8Array> {
  const iterator = bytes[Symbol.asyncIterator]();
  const deadline = now() + longest;
  try {
    for (;;) {
      const next = await within(iterator.next(), Math.min(idle, deadline - now()));
      if (next === undefined) throw late();
      if (next.done) return;
      yield next.value;
    }
  } finally {
    // Not awaited: a source that still waits for its next piece cannot return before it has one.
    void Promise.resolve(iterator.return?.()).catch(() => undefined);
  }
}
