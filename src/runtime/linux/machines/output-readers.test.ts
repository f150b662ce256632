/** What an agent is told about the readers of a command, on a clock of the test. */

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { OutputReaders } from "./output-readers.ts";

const limit = 1600;

describe("the readers of a command's output", () => {
  let told: number[];
  let readers: OutputReaders;

  beforeEach(() => {
    vi.useFakeTimers();
    told = [];
    readers = new OutputReaders({ limit, spare: (offset) => told.push(offset) });
  });
  afterEach(() => {
    readers.close();
    vi.useRealTimers();
  });

  test("a command that prints little causes no request", () => {
    const reader = readers.add(0);
    readers.grew(limit / 16);
    reader.taken(limit / 16);
    reader.close();
    readers.close();
    expect(told).toEqual([]);
  });

  test("without a reader all output may go, but only after a reader had the time to come", () => {
    readers.grew(limit);
    expect(told).toEqual([]);
    vi.advanceTimersByTime(2000);
    expect(told).toEqual([Number.POSITIVE_INFINITY]);
    readers.grew(10 * limit);
    expect(told).toHaveLength(1);
  });

  test("a reader that comes later keeps what is after its offset", () => {
    readers.grew(limit);
    vi.advanceTimersByTime(2000);
    readers.add(900);
    expect(told.at(-1)).toBe(900);
  });

  test("the slowest reader decides, in steps", () => {
    const [slow, fast] = [readers.add(0), readers.add(0)];
    readers.grew(limit);
    fast.taken(limit);
    expect(told).toEqual([]);
    slow.taken(99);
    expect(told).toEqual([]);
    slow.taken(100);
    expect(told).toEqual([100]);
    slow.close();
    expect(told).toEqual([100, limit]);
  });

  test("a reader that takes nothing for half a minute no longer counts until it goes on", () => {
    const reader = readers.add(0);
    readers.grew(limit);
    vi.advanceTimersByTime(15_000);
    expect(told).toEqual([]);
    vi.advanceTimersByTime(15_000);
    expect(told).toEqual([Number.POSITIVE_INFINITY]);
    reader.taken(10);
    expect(told).toEqual([Number.POSITIVE_INFINITY, 10]);
  });

  test("a reader that had nothing to take for a long time is not stalled", () => {
    const reader = readers.add(0);
    readers.grew(10);
    reader.taken(10);
    vi.advanceTimersByTime(3_600_000);
    readers.grew(limit);
    vi.advanceTimersByTime(15_000);
    reader.taken(20);
    vi.advanceTimersByTime(20_000);
    expect(told).toEqual([]);
  });

  test("an agent that was connected again is told where the readers are", () => {
    readers.add(30);
    readers.renew();
    expect(told).toEqual([30]);
  });
});
