/** Tests of the pace: one turn at a time, and groups in turn. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Pace } from "./pace.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("one turn is granted in each pause, and a group with many members has no more turns than another", async () => {
  const pace = new Pace(2);
  const [many, single] = [{}, {}];
  const done: string[] = [];
  for (const name of ["a", "b", "c"]) void pace.turn(many).then(() => done.push(name));
  void pace.turn(single).then(() => done.push("x"));
  expect(done).toEqual([]);
  for (const upTo of [["a"], ["a", "x"], ["a", "x", "b"], ["a", "x", "b", "c"]]) {
    await vi.advanceTimersByTimeAsync(2);
    expect(done).toEqual(upTo);
  }
  expect(vi.getTimerCount()).toBe(0);
});

test("one that takes turn after turn still pauses", async () => {
  const pace = new Pace(2);
  let turns = 0;
  const greedy = async () => {
    for (; turns < 100; turns++) await pace.turn(pace);
  };
  void greedy();
  await vi.advanceTimersByTimeAsync(20);
  expect(turns).toBe(10);
});
