/** Bytes of clients that are slow, with a clock that the test moves. */

import { afterEach, expect, test, vi } from "vitest";
import { steady } from "./steady.ts";

afterEach(() => void vi.useRealTimers());

/** a piece after each of these waits, in ms */
async function* after(...waits: number[]): AsyncGenerator<Uint8Array> {
  for (const ms of waits) {
    await new Promise((resolve) => setTimeout(resolve, ms));
    yield new Uint8Array([ms]);
  }
}

test.each([
  { waits: [10, 90, 90], outcome: "3 pieces" },
  { waits: [10, 110], outcome: "too slow" },
  { waits: [90, 90, 90, 90], outcome: "too slow" },
])("pieces after $waits ms are $outcome", async ({ waits, outcome }) => {
  vi.useFakeTimers();
  const pace = { idle: 100, longest: 300, now: Date.now, late: () => new Error("too slow") };
  const read = Array.fromAsync(steady(after(...waits), pace)).then(
    ({ length }) => `${length} pieces`,
    ({ message }: Error) => message,
  );
  await vi.advanceTimersByTimeAsync(1000);
  expect(await read).toBe(outcome);
});

test("a reader that stops ends the source", async () => {
  let ended = false;
  async function* source(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) yield new Uint8Array(1);
    } finally {
      ended = true;
    }
  }
  const pace = { idle: 1000, longest: 1000, now: Date.now, late: () => new Error("too slow") };
  for await (const piece of steady(source(), pace)) if (piece.length === 1) break;
  await expect.poll(() => ended).toBe(true);
});
