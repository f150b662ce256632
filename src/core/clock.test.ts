/** Tests of the clock: a jump of the wall clock does not change how much time a session has left. */

import { expect, test } from "vitest";
import { Clock } from "./clock.ts";

const hour = 3_600_000;

function clocks() {
  const time = { wall: 1_800_000_000_000, steady: 5000 };
  const clock = new Clock(
    () => time.wall,
    () => time.steady,
  );
  const moves: number[] = [];
  clock.move = async (by) => void moves.push(by);
  const pass = (ms: number) => {
    time.wall += ms;
    time.steady += ms;
  };
  return { clock, time, moves, pass };
}

test("time that passes moves nothing", async () => {
  const { clock, moves, pass } = clocks();
  pass(hour);
  expect(await clock.settled()).toBe(1_800_000_000_000 + hour);
  expect(moves).toEqual([]);
});

test.each([-hour, hour])("a clock that is set by %d ms moves the planned times by as much, once", async (by) => {
  const { clock, time, moves, pass } = clocks();
  pass(20_000);
  time.wall += by;
  await clock.settled();
  pass(20_000);
  await clock.settled();
  expect(moves).toEqual([by]);
});

test("a clock that is adjusted slowly moves nothing", async () => {
  const { clock, time, moves, pass } = clocks();
  for (let n = 0; n < 100; n++) {
    pass(10_000);
    time.wall += 5;
    clock.now();
  }
  await clock.settled();
  expect(moves).toEqual([]);
});

test("settled() waits for moves that are under way", async () => {
  const { clock, time } = clocks();
  const { promise, resolve } = Promise.withResolvers<void>();
  clock.move = () => promise;
  time.wall -= hour;
  let isSettled = false;
  const settled = clock.settled().then(() => {
    isSettled = true;
  });
  await new Promise((done) => setImmediate(done));
  expect(isSettled).toBe(false);
  resolve();
  await settled;
});
