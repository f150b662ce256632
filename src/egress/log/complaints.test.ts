/** How much is said of what goes wrong. */

import { expect, test } from "vitest";
import { newComplaints } from "./complaints.ts";

test("a flood of complaints is told in part, with how much was left out", () => {
  let time = 0;
  const lines: unknown[] = [];
  const complain = newComplaints(
    () => time,
    (...words) => lines.push(words),
  );
  for (let i = 0; i < 100; i++) complain("Cannot do it:", i);
  expect(lines).toHaveLength(20);
  time = 1_000;
  complain("Cannot do it:", "late");
  expect(lines.at(-1)).toEqual(["Cannot do it: (and 80 times something else)", "late"]);
  time = 2_000;
  complain("Cannot do it:", "later");
  expect(lines.at(-1)).toEqual(["Cannot do it:", "later"]);
});
