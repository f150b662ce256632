/** What /proc/stat says about the host's processors. */

import { expect, test } from "vitest";
import { busyBetween, processorTimes } from "./processor-watch.ts";

/** a host with two processors, from ticks in the order of the kernel */
function stat(...ticks: number[]): string {
  const line = ticks.join(" ");
  return `cpu  ${line}\ncpu0 ${line}\ncpu1 ${line}\nintr 5 0\nctxt 77\nbtime 1\nprocs_running 3\n`;
}

test("time is busy unless the processor idles or waits for a disk, and guests count once", () => {
  const times = processorTimes(stat(100, 10, 40, 700, 50, 5, 15, 80, 90, 10));
  expect(times).toEqual({ count: 2, busy: 250, all: 1000 });
});

test("the busy processors are those between two measurements", () => {
  const before = processorTimes(stat(100, 0, 0, 900, 0, 0, 0, 0, 0, 0));
  expect(busyBetween(before, processorTimes(stat(175, 0, 0, 925, 0, 0, 0, 0, 0, 0)))).toBe(1.5);
  expect(busyBetween(before, processorTimes(stat(100, 0, 0, 1000, 0, 0, 0, 0, 0, 0)))).toBe(0);
  expect(busyBetween(before, before)).toBe(0);
  // Waiting for disks is estimated, and its sum may be smaller later.
  const waited = processorTimes(stat(100, 0, 0, 900, 50, 0, 0, 0, 0, 0));
  expect(busyBetween(waited, processorTimes(stat(160, 0, 0, 900, 40, 0, 0, 0, 0, 0)))).toBe(2);
});

test("a text without processors has none", () => {
  expect(processorTimes("")).toEqual({ count: 0, busy: 0, all: 0 });
});
