/** Numbers of sessions over time, from their starts and ends. */

import { expect, test } from "vitest";
import { concurrency } from "./concurrency.ts";

const query = { from: 1000, to: 1400, step: 100 };

test("a step has the most that ran at once within it, and what was started in it", () => {
  const runs = [
    { startedAt: 500 },
    { startedAt: 1010, endedAt: 1250 },
    { startedAt: 1020, endedAt: 1030 },
    { startedAt: 1320, endedAt: 1320 },
  ];
  expect(concurrency(runs, query)).toEqual([
    { at: 1000, running: 3, started: 2 },
    { at: 1100, running: 2, started: 0 },
    { at: 1200, running: 2, started: 0 },
    { at: 1300, running: 2, started: 1 },
  ]);
});

test("what ended before, or began after, is not counted", () => {
  const runs = [{ startedAt: 100, endedAt: 1000 }, { startedAt: 1400 }, { startedAt: 900, endedAt: 999 }];
  expect(concurrency(runs, query).map(({ running }) => running)).toEqual([1, 0, 0, 0]);
});

test("sessions that follow one another do not run at once", () => {
  const runs = Array.from({ length: 4 }, (_, at) => ({ startedAt: 1000 + at * 50, endedAt: 1050 + at * 50 }));
  expect(concurrency(runs, query).map(({ running, started }) => [running, started])).toEqual([
    [1, 2],
    [1, 2],
    [1, 0],
    [0, 0],
  ]);
});

test("steps are the same in each answer", () => {
  expect(concurrency([{ startedAt: 0 }], { from: 1050, to: 1210, step: 100 })).toEqual([
    { at: 1000, running: 1, started: 0 },
    { at: 1100, running: 1, started: 0 },
    { at: 1200, running: 1, started: 0 },
  ]);
});
