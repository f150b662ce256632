/**
 * Pagination of version 1, which uses timestamps as cursors: `pagination.next` is the `until` of the next page and
 * `pagination.prev` the `since` of the previous one.
 *
 * A whole number is a time: `since=t` selects what was created after the millisecond t, `until=t` what was created
 * before it. But a page may end within a millisecond, and clients accept only numbers. So the place between two pages
 * is a number with a fraction:
 *
 *   t + (1 + n) / 2048      n items of millisecond t are older than this place
 *
 * 1803711655015.0005 is below all items of its millisecond, 1803711655015.001 above the oldest of them. A double has
 * room for 2048 steps in a millisecond until the year 2109, and for 4096 until 2039. The SDKs pass numbers on
 * unchanged. Even rounded down, a number still names the right page unless the page begins within a millisecond.
 *
 * Every place has a fraction, even one between two milliseconds, which tells it from a time that the caller chose. A
 * time limits `total` and has no previous page; a place does not limit `total` and may have one. With whole numbers,
 * the total would shrink from page to page, and a client could not go back from the third page to the second.
 */

import { SandkeepError } from "../../../core/model/errors.ts";
import type { Bound, Place, Timeline } from "../../../core/sessions/timeline.ts";

const steps = 2048;

export function boundOf(timestamp: number | undefined): Bound | undefined {
  if (timestamp === undefined) return undefined;
  const at = Math.floor(timestamp);
  if (timestamp === at) return { at };
  const step = (timestamp - at) * steps;
  return Number.isInteger(step) ? { at, below: step - 1 } : { at, isWithin: true };
}

export function timestampOf({ at, below }: Place): number {
  if (below + 1 >= steps) {
    const words = `Cannot name the next page: more than ${steps - 2} were created in the millisecond ${at}`;
    throw new SandkeepError("unsupported", words);
  }
  return at + (1 + below) / steps;
}

export function pagination({ items, total, older, newer }: Timeline<unknown>): object {
  return {
    count: items.length,
    next: older ? timestampOf(older) : null,
    prev: newer ? timestampOf(newer) : null,
    total,
  };
}
