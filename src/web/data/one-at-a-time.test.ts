/** Work that is asked for more often than it can be done. */

import { expect, test } from "vitest";
import { oneAtATime } from "./one-at-a-time.ts";

test("a flood of requests does the work once, and once more after it", async () => {
  const waiting: (() => void)[] = [];
  let done = 0;
  const { ask, stop } = oneAtATime(async () => {
    await new Promise<void>((resolve) => waiting.push(resolve));
    done++;
  }, 0);
  for (let n = 0; n < 1000; n++) ask();
  expect(waiting).toHaveLength(1);
  waiting[0]?.();
  await expect.poll(() => waiting.length).toBe(2);
  expect(done).toBe(1);
  waiting[1]?.();
  await expect.poll(() => done).toBe(2);
  await new Promise((resolve) => setTimeout(resolve, 10));
  expect(waiting).toHaveLength(2);

  // It goes on after a failure, and not after its end.
  ask();
  await expect.poll(() => waiting.length).toBe(3);
  ask();
  stop();
  waiting[2]?.();
  await new Promise((resolve) => setTimeout(resolve, 10));
  expect(waiting).toHaveLength(3);
});
