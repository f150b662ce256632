/** When deliveries are tried again, and when a webhook is given up. */

import { expect, test } from "vitest";
import { isHopeless, pauseAfter } from "./schedule.ts";

test("pauses grow, vary by a fifth, and end", () => {
  const pauses = Array.from({ length: 10 }, (_, i) => pauseAfter(i + 1, 0.5));
  const hour = 3_600_000;
  const grown = [5000, 30_000, 120_000, 600_000, hour, 3 * hour, 6 * hour, 12 * hour];
  expect(pauses).toEqual([...grown, undefined, undefined]);
  expect([pauseAfter(1, 0), pauseAfter(1, 0.999_999)]).toEqual([4000, 6000]);
});

test("a webhook is given up after three days without a success", () => {
  const day = 86_400_000;
  expect([isHopeless(undefined, 9 * day), isHopeless(day, 4 * day - 1), isHopeless(day, 4 * day)]).toEqual([
    false,
    false,
    true,
  ]);
});
