/** Tests of errors about the words of a command line, and of refusals. */

import { expect, test } from "vitest";
import { misuse, Refusal } from "./errors.ts";

test("an error about the words shows the forms of the command, and where the rest is", () => {
  const usage = `Usage: sandkeep cp <path> <sandbox>:<path>
       sandkeep cp <sandbox>:<path> <path>

Copies a file.

Options:
  --json  print JSON
`;
  expect(misuse("Cannot copy: give two paths", usage).message).toBe(`Cannot copy: give two paths

Usage: sandkeep cp <path> <sandbox>:<path>
       sandkeep cp <sandbox>:<path> <path>
hint: sandkeep cp --help shows the options`);
});

test("a refused key says where the key comes from", () => {
  expect(new Refusal("Cannot list the sandboxes: no team has this key", 401).message).toMatch(
    /this key\nhint: the key is that of SANDKEEP_API_KEY, else /,
  );
  expect(new Refusal("Cannot list the sandboxes: it is too late", 409).message).not.toContain("hint");
});
