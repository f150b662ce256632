/** Tests of waits that end early. */

import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { unlessAborted, within } from "./waits.ts";

const never = new Promise<never>(() => undefined);

test("a wait for a time gives the result, the error, or nothing", async () => {
  expect(await within(Promise.resolve(1), 60_000)).toBe(1);
  await expect(within(Promise.reject(new Error("no")), 60_000)).rejects.toThrow("no");
  expect(await within(never, 1)).toBeUndefined();
});

test("a wait that a signal ends gives nothing, and leaves no listener", async () => {
  const { signal } = new AbortController();
  expect(await unlessAborted(Promise.resolve(1), signal)).toBe(1);
  await expect(unlessAborted(Promise.reject(new Error("no")), signal)).rejects.toThrow("no");
  expect(getEventListeners(signal, "abort")).toEqual([]);
  expect(await unlessAborted(never, AbortSignal.abort())).toBeUndefined();
  expect(await unlessAborted(never, AbortSignal.timeout(1))).toBeUndefined();
});
