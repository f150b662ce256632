/** Tests of the signals that say when a key is no longer good. */

import { expect, test, vi } from "vitest";
import { KeyLifetimes } from "./key-lifetimes.ts";

test("deleting a key aborts its own signal only", () => {
  const lifetimes = new KeyLifetimes(() => 0);
  const [one, again, other] = [lifetimes.of({ id: "one" }), lifetimes.of({ id: "one" }), lifetimes.of({ id: "other" })];
  lifetimes.end("one");
  expect([one.aborted, again.aborted, other.aborted]).toEqual([true, true, false]);
});

test("a key's signal aborts when the key expires, even later than the longest timer", () => {
  vi.useFakeTimers({ now: 0 });
  try {
    const lifetimes = new KeyLifetimes(Date.now);
    const month = 40 * 24 * 60 * 60_000;
    const signal = lifetimes.of({ id: "one", expiresAt: month });
    vi.advanceTimersByTime(month - 1);
    expect(signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(signal.aborted).toBe(true);
    expect(lifetimes.of({ id: "late", expiresAt: 5 }).aborted).toBe(true);
  } finally {
    vi.useRealTimers();
  }
});
