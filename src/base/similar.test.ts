/** Which known name a misspelt one is taken for. */

import { expect, test } from "vitest";
import { didYouMean, nearestOf } from "./similar.ts";

const known = ["vercel", "veryfront", "SANDKEEP_EGRESS_ALLOW", "SANDKEEP_EGRESS_DENY", "env", "key"];

test.each([
  ["vercell", "vercel"],
  ["vrecel", "vercel"],
  ["Vercel", "vercel"],
  ["SANDKEEP_EGRESS_ALOW", "SANDKEEP_EGRESS_ALLOW"],
  ["SANDKEEP_ALLOW_EGRESS", undefined],
  ["enb", "env"],
  ["keys", "key"],
  ["", undefined],
  ["aws", undefined],
])('"%s" is taken for %s', (name, meant) => {
  expect(nearestOf(name, known)).toBe(meant);
});

test("it is a question, or nothing", () => {
  expect(didYouMean("vercell", known)).toBe('Did you mean "vercel"?');
  expect(didYouMean("aws", known)).toBe("");
});
