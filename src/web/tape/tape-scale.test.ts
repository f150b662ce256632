/** The time axis of a tape. */

import { expect, test } from "vitest";
import { between, moved, place, stretchOf, ticks, touches } from "./tape-scale.ts";

test("a tape shows every moment, and at least a minute", () => {
  expect(stretchOf([], 1000)).toEqual({ from: 1000, to: 61_000 });
  expect(stretchOf([5000, 400_000], 300_000)).toEqual({ from: 5000, to: 400_000 });
});

test("places and moments are the same both ways, and stay inside", () => {
  const stretch = { from: 1000, to: 3000 };
  expect([0, 1000, 2000, 9000].map((at) => place(stretch, at))).toEqual([0, 0, 500, 1000]);
  expect(between(stretch, 0.75, 0.25)).toEqual({ from: 1500, to: 2500 });
  expect(between(stretch, -1, 2)).toEqual(stretch);
});

test("what touches a stretch is in it", () => {
  const stretch = { from: 10, to: 20 };
  const found = [
    [5, 9],
    [5, 10],
    [12, 13],
    [20, 30],
    [21, 30],
  ].map(([start = 0, end]) => touches(stretch, start, end));
  expect(found).toEqual([false, true, true, true, false]);
  expect(touches(undefined, 1)).toBe(true);
});

test("the axis has a few round moments, however long it is", () => {
  const minute = 60_000;
  expect(ticks({ from: 0, to: 4 * minute })).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8].map((count) => count * 30_000));
  for (const to of [minute, 3_600_000, 86_400_000, 365 * 86_400_000]) {
    const found = ticks({ from: 5000, to });
    expect(found.length).toBeGreaterThan(1);
    expect(found.length).toBeLessThan(10);
  }
});

test("a stretch moves by a part of its length, and stays inside the whole", () => {
  const whole = { from: 0, to: 1000 };
  expect(moved({ from: 100, to: 200 }, whole, 0.5)).toEqual({ from: 150, to: 250 });
  expect(moved({ from: 100, to: 200 }, whole, -2)).toEqual({ from: 0, to: 100 });
  expect(moved({ from: 900, to: 1000 }, whole, 1)).toEqual({ from: 900, to: 1000 });
});
