/** When a delivery is tried again, and when a webhook is given up. Pure. */

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;

/** pauses after the first, second … failed attempt, in ms: about 22 hours in all */
const pauses = [5 * second, 30 * second, 2 * minute, 10 * minute, hour, 3 * hour, 6 * hour, 12 * hour];
/** how much a pause varies, so that many deliveries do not come at once */
const jitter = 0.2;
/** how long every attempt of a webhook may fail before it is disabled, in ms */
const longestFailure = 3 * 24 * hour;

/** ms until the next attempt; undefined if there is none. `random` is in [0, 1) */
export function pauseAfter(attempts: number, random: number): number | undefined {
  const pause = pauses[attempts - 1];
  return pause && Math.round(pause * (1 + jitter * (2 * random - 1)));
}

/** whether a webhook has failed for so long that it is disabled */
export function isHopeless(failingSince: number | undefined, now: number): boolean {
  return failingSince !== undefined && now - failingSince >= longestFailure;
}
