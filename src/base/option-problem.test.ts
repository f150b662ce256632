/** Sentences about options that a command does not have, or that lack their value. */

import { parseArgs } from "node:util";
import { expect, test } from "vitest";
import { optionProblem } from "./option-problem.ts";

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
