/** When the garbage of a process is collected: once after each busy time, and never while it works. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { collectWhenIdle } from "./idle-collection.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function watched(heap = 1 << 20) {
  const state = { load: 1, collected: 0 };
  collectWhenIdle({ every: 10, load: () => state.load, heap: () => heap, collect: () => void state.collected++ });
  const then = (load: number, ms: number) => {
    state.load = load;
    vi.advanceTimersByTime(ms);
    return state.collected;
  };
  return then;
}

test("a process that has nothing to do is collected once, and again after it was busy", () => {
  const then = watched();
  expect(then(0.9, 100)).toBe(0);
  expect(then(0.01, 10)).toBe(1);
  expect(then(0.01, 1000)).toBe(1);
  expect(then(0.5, 10)).toBe(1);
  expect(then(0, 20)).toBe(2);
});

test("a large heap is left to V8, as collecting it would stop the process for long", () => {
  const then = watched(1 << 30);
  expect(then(0, 1000)).toBe(0);
});

test("a collection frees what nothing refers to", async () => {
  vi.useRealTimers();
  const garbage = () => new WeakRef({ big: new Array(1000) });
  const reference = garbage();
  // The tests of other files may have filled the heap of this process.
  collectWhenIdle({ every: 1, load: () => 0, heap: () => 0 });
  // An assertion about the object would keep it.
  await vi.waitFor(() => expect(reference.deref() === undefined).toBe(true));
});
