/** Curves: their top is the limit, they break off at pauses, and a stretch shows only its part. */

import { expect, test } from "vitest";
import { curve, nearest, within } from "./curve.ts";

const stretch = { from: 0, to: 1000 };
const frame = { stretch, most: 2, bottom: 20, height: 16 };
const points = (...values: [number, number][]) => values.map(([at, value]) => ({ at, value }));

test("the top of the drawing is the limit, and values above it stay inside", () => {
  const { line, area } = curve(points([0, 0], [500, 2], [1000, 3]), frame);
  expect(line).toBe("M0.0 20.0L500.0 4.0L1000.0 4.0");
  expect(area).toBe("M0.0 20L0.0 20.0L500.0 4.0L1000.0 4.0L1000.0 20Z");
});

test("a pause, in which nothing was measured, has no line", () => {
  const { line } = curve(points([0, 1], [10, 1], [20, 1], [900, 1], [910, 1]), frame);
  expect(line.match(/M/g)).toHaveLength(2);
  expect(curve(points([5, 1]), frame)).toEqual({ line: "", area: "" });
  expect(curve([], frame)).toEqual({ line: "", area: "" });
});

test("a stretch shows its points and those beside it, and the point next to the pointer is found", () => {
  const all = points([0, 1], [10, 1], [20, 1], [30, 1], [40, 1]);
  expect(within(all, { from: 15, to: 25 }).map(({ at }) => at)).toEqual([10, 20, 30]);
  expect(within(all, { from: 50, to: 60 })).toEqual([]);
  expect(nearest(all, 26)?.at).toBe(30);
  expect(nearest([], 26)).toBeUndefined();
});
