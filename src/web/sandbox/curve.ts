/** Values over time as the outline of an area in a drawing. */

import { place, type Stretch } from "../tape/tape-scale.ts";

export interface Point {
  at: number;
  value: number;
}

interface Frame {
  stretch: Stretch;
  /** the value at the top */
  most: number;
  /** where the value 0 is, and how far above it the top, in units of the drawing */
  bottom: number;
  height: number;
}

/** a pause, in which nothing is measured, is longer than so many usual distances of two points */
const pause = 5;

/** the path of the line, and of the area below it; both are empty if there are less than two points */
export function curve(points: readonly Point[], { stretch, most, bottom, height }: Frame) {
  const xy = ({ at, value }: Point) => {
    const part = Math.min(1, Math.max(0, value / Math.max(most, Number.MIN_VALUE)));
    return { x: place(stretch, at).toFixed(1), y: (bottom - part * height).toFixed(1) };
  };
  const runs = runsOf(points).map((run) => run.map(xy));
  const line = runs.map((run) => `M${run.map(({ x, y }) => `${x} ${y}`).join("L")}`).join("");
  const area = runs
    .map((run) => `M${run[0]?.x} ${bottom}${run.map(({ x, y }) => `L${x} ${y}`).join("")}L${run.at(-1)?.x} ${bottom}Z`)
    .join("");
  return { line, area };
}

/** the points without those that lie outside; one on each side stays, so that lines lead out of the stretch */
export function within(points: readonly Point[], { from, to }: Stretch): readonly Point[] {
  const first = points.findIndex(({ at }) => at >= from);
  if (first < 0) return [];
  const end = points.findIndex(({ at }) => at > to);
  return points.slice(Math.max(0, first - 1), end < 0 ? points.length : end + 1);
}

/** the point next to a moment */
export function nearest(points: readonly Point[], at: number): Point | undefined {
  let best: Point | undefined;
  for (const point of points) if (!best || Math.abs(point.at - at) < Math.abs(best.at - at)) best = point;
  return best;
}

/** the points between pauses, at least two of them each */
function runsOf(points: readonly Point[]): Point[][] {
  const distances = points.slice(1).map(({ at }, index) => at - (points[index]?.at ?? at));
  const usual = distances.toSorted((a, b) => a - b)[distances.length >> 1] ?? 0;
  const runs: Point[][] = [];
  for (const [index, point] of points.entries()) {
    const distance = distances[index - 1] ?? Number.POSITIVE_INFINITY;
    if (distance > usual * pause) runs.push([]);
    runs.at(-1)?.push(point);
  }
  return runs.filter(({ length }) => length > 1);
}
