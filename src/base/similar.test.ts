/** Which known name a misspelt one is taken for. */

import { parseArgs } from "node:util";
import { expect, test } from "vitest";
import { didYouMean, nearestOf, optionProblem } from "./similar.ts";

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

const options = { "data-dir": { type: "string" }, json: { type: "boolean" } } as const;

test.each([
  [["--jsno"], `Unknown option '--jsno'. Did you mean "--json"?`],
  [["--datadir=/x"], `Unknown option '--datadir'. Did you mean "--data-dir"?`],
  [["--colour"], "Unknown option '--colour'"],
  [["-x"], "Unknown option '-x'"],
  [["--data-dir"], "Option '--data-dir <value>' argument missing"],
  [["--json=yes"], "Option '--json' does not take an argument"],
  [["stray"], "Unexpected argument 'stray'"],
])("%j is a sentence", (args, sentence) => {
  expect(problemOf(args)).toBe(sentence);
});

function problemOf(args: string[]): string | undefined {
  try {
    parseArgs({ args, options });
    return undefined;
  } catch (error) {
    return optionProblem(error, Object.keys(options));
  }
}
