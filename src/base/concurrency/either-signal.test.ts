/** A signal that aborts with either of two. */

import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { eitherSignal } from "./either-signal.ts";

test.each([0, 1])("it aborts with signal %i, for the same reason", (index) => {
  const controllers = [new AbortController(), new AbortController()] as const;
  const { signal } = eitherSignal(controllers[0].signal, controllers[1].signal);
  expect(signal.aborted).toBe(false);
  controllers[index]?.abort("why");
  expect([signal.aborted, signal.reason]).toEqual([true, "why"]);
});

test("it is aborted from the start if one of them is", () => {
  const { signal } = eitherSignal(new AbortController().signal, AbortSignal.abort("before"));
  expect([signal.aborted, signal.reason]).toEqual([true, "before"]);
});

test("without another one it is the one, and nothing is left behind after its release", () => {
  const one = new AbortController().signal;
  expect(eitherSignal(one, undefined).signal).toBe(one);
  const other = new AbortController().signal;
  const { release } = eitherSignal(one, other);
  release();
  expect([one, other].map((signal) => getEventListeners(signal, "abort"))).toEqual([[], []]);
});
