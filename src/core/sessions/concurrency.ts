/** How many sessions ran at a time, and how many were started, over a stretch of time: counted from the sessions' records. */

import type { SessionRun } from "../ports/store.ts";

export interface ConcurrencyQuery {
  from: number;
  /** later than `from` */
  to: number;
  /** ms of a step */
  step: number;
}

/** A step, named by its beginning. */
export interface Concurrency {
  at: number;
  /** most sessions that ran at the same time within the step */
  running: number;
  /** sessions that were started within the step */
  started: number;
}

/** oldest first; the steps are multiples of their length, so that the same step has the same numbers in each answer */
export function concurrency(runs: readonly SessionRun[], { from, to, step }: ConcurrencyQuery): Concurrency[] {
  const first = Math.floor(from / step) * step;
  const steps = Array.from({ length: Math.max(1, Math.ceil((to - first) / step)) }, (_, at) => first + at * step);
  const changes = runs
    .flatMap(({ startedAt, endedAt }) => [
      { at: startedAt, by: 1 },
      ...(endedAt === undefined ? [] : [{ at: Math.max(startedAt + 1, endedAt), by: -1 }]),
    ])
    // A session that begins when another one ends does not run beside it.
    .sort((a, b) => a.at - b.at || a.by - b.by);
  let next = 0;
  let running = 0;
  const until = (end: number, each: (by: number) => void) => {
    for (let change = changes[next]; change && change.at < end; change = changes[++next]) {
      running += change.by;
      each(change.by);
    }
  };
  until(first, () => undefined);
  return steps.map((at) => {
    const seen = { at, running, started: 0 };
    until(Math.min(at + step, to), (by) => {
      seen.running = Math.max(seen.running, running);
      if (by > 0) seen.started++;
    });
    return seen;
  });
}
