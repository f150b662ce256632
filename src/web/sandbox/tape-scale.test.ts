/** The time axis of a tape. */

import { expect, test } from "vitest";
import { between, place, stretchOf, touches } from "./tape-scale.ts";

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
