/** Which changes of a store wait for a flush. */

import { expect, test } from "vitest";
import { durable, flushing } from "./durable.ts";

test("a durable change resolves after its flush; others, and calls that need none, do not wait", async () => {
  let flushes = 0;
  const store = flushing(
    {
      always: durable(async (value: number) => value),
      sometimes: durable(
        async (value: number) => value,
        (value) => value > 1,
      ),
      never: async (value: number) => value,
    },
    async () => {
      flushes++;
    },
  );
  expect([await store.never(1), flushes]).toEqual([1, 0]);
  expect([await store.sometimes(1), flushes]).toEqual([1, 0]);
  expect([await store.sometimes(2), flushes]).toEqual([2, 1]);
  expect([await store.always(3), flushes]).toEqual([3, 2]);
});
