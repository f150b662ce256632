/**
 * Frees memory once a process has nothing to do. V8 collects all of its garbage only when the heap has grown by much, so
 * an idle process keeps what its start, or its last busy minute, has left behind.
 */

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

export interface IdleOptions {
  /** time between two looks, in ms */
  every?: number;
  /** the share of the time since the last call in which the process worked, from 0 to 1 */
  load?: () => number;
  /** bytes of the heap that are in use */
  heap?: () => number;
  collect?: () => void;
}

/** from this share on the process is busy */
const busy = 0.05;
/** bytes of a heap above which a collection would stop the process for too long */
const largest = 128 << 20;

/** collects all garbage when the process has been idle for a moment, and again after each time that it was busy */
export function collectWhenIdle(options: IdleOptions = {}): void {
  const { every = 1000, load = ownLoad(), collect = collectAll } = options;
  const heap = options.heap ?? (() => process.memoryUsage().heapUsed);
  let isDue = true;
  setInterval(() => {
    if (load() >= busy) {
      isDue = true;
    } else if (isDue) {
      isDue = false;
      if (heap() <= largest) collect();
      // The collection itself is no work.
      load();
    }
  }, every).unref();
}

function ownLoad(): () => number {
  let before = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    return utilization;
  };
}

let gc: (() => void) | undefined;

/** Node has this function only with a flag; V8 gives it to contexts that are made after the flag is set */
function collectAll(): void {
  setFlagsFromString("--expose-gc");
  gc ??= runInNewContext("gc") as () => void; // V8's own
  gc();
}
