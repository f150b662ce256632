/** How much many open files take, told from some of them. */

import { expect, test } from "vitest";
import { estimate } from "./kernel-memory-watch.ts";

test("few are looked at one by one, and of many no more than may be", () => {
  expect(estimate([1, 2, 3], 16, (one) => one)).toBe(6);
  expect(estimate([], 16, () => 1)).toBe(0);
  let looks = 0;
  const count = () => {
    looks++;
    return 2;
  };
  expect(estimate([...Array(65_536).keys()], 1024, count)).toBe(131_072);
  expect(looks).toBe(1024);
});
