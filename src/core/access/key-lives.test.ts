/** Tests of the signals that say when a key is no longer good. */

import { expect, test, vi } from "vitest";
import { KeyLives } from "./key-lives.ts";

test("a key that is deleted ends its signal, and no other's", () => {
  const lives = new KeyLives(() => 0);
  const [one, again, other] = [lives.of({ id: "one" }), lives.of({ id: "one" }), lives.of({ id: "other" })];
  lives.end("one");
  expect([one.aborted, again.aborted, other.aborted]).toEqual([true, true, false]);
});

test("a key ends when it expires, also when that is further away than a timer reaches", () => {
  vi.useFakeTimers({ now: 0 });
  try {
    const lives = new KeyLives(Date.now);
    const month = 40 * 24 * 60 * 60_000;
    const signal = lives.of({ id: "one", expiresAt: month });
    vi.advanceTimersByTime(month - 1);
    expect(signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(signal.aborted).toBe(true);
    expect(lives.of({ id: "late", expiresAt: 5 }).aborted).toBe(true);
  } finally {
    vi.useRealTimers();
  }
});
