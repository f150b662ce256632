/** What /proc/meminfo says about the host's memory. */

import { expect, test } from "vitest";
import { memoryOf } from "./vitals.ts";

test("memory that the kernel can give back counts as available", () => {
  const text =
    "MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:    4096 kB\nCached:          3000 kB\n";
  expect(memoryOf(text)).toEqual({ total: 16_777_216, available: 4_194_304 });
});
