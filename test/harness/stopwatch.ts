/**
 * Measures how long the daemon or a program took, on a host that other programs may keep busy: such a host makes it slow,
 * not wrong.
 */

import { readFileSync } from "node:fs";

/** ms of a clock tick in /proc/stat, which is the same on every architecture that we support */
const tick = 10;

/**
 * Starts now; the function returns the ms since then, at most as many as a processor of the host had nothing to do. So it
 * counts waiting for a timer or an answer that does not come, and not waiting for a processor or for the disk.
 */
export function stopwatch(now = () => performance.now(), idle = idleTime): () => number {
  const [begun, rested] = [now(), idle()];
  return () => Math.min(now() - begun, idle() - rested);
}

/** ms for which processors had nothing to do since the host started, of all processors together */
export function idleTime(): number {
  const [, , , , idle] = readFileSync("/proc/stat", "utf8").split(/\s+/, 5);
  return Number(idle) * tick;
}
