/** The command line that is suggested to a person who is not root. */

import { expect, test } from "vitest";
import { rootHint } from "./greeting.ts";
import { launcher } from "./installation.ts";

test("the suggested command has the flags and variables that were given", () => {
  const environment = { SANDKEEP_PORT: "7811", SANDKEEP_API_KEY: "secret", HOME: "/" };
  expect(rootHint(["--data-dir", "/my data", "--stop-all"], environment)).toBe(
    `hint: sudo --preserve-env=SANDKEEP_PORT,SANDKEEP_API_KEY ${launcher} serve --data-dir '/my data' --stop-all; "doctor" instead of "serve" says what else is missing`,
  );
  expect(rootHint([], {})).toMatch(/^hint: sudo \S+\/bin\/sandkeep serve; /);
});
