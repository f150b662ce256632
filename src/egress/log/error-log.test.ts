/** How many of the errors that the egress process meets are logged. */

import { expect, test } from "vitest";
import { limitedErrorLog } from "./error-log.ts";

test("a flood of errors is logged in part, with the number of those left out", () => {
  let time = 0;
  const lines: unknown[] = [];
  const logError = limitedErrorLog(
    () => time,
    (...words) => lines.push(words),
  );
  for (let i = 0; i < 100; i++) logError("Cannot do it:", i);
  expect(lines).toHaveLength(20);
  time = 1_000;
  logError("Cannot do it:", "late");
  expect(lines.at(-1)).toEqual(["Cannot do it: (and 80 other errors)", "late"]);
  time = 2_000;
  logError("Cannot do it:", "later");
  expect(lines.at(-1)).toEqual(["Cannot do it:", "later"]);
});
