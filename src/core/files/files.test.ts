/** Tests that relative paths begin at the session's directory, and that none climbs above the root. */

import { expect, test } from "vitest";
import { resolvePath } from "./files.ts";

test.each([
  ["/vercel/sandbox", undefined, "a/b.txt", "/vercel/sandbox/a/b.txt"],
  ["/vercel/sandbox", "/vercel", "a/b.txt", "/vercel/a/b.txt"],
  ["/vercel/sandbox", "sub", "x", "/vercel/sandbox/sub/x"],
  ["/vercel/sandbox", "/tmp", "/etc/hosts", "/etc/hosts"],
  ["/vercel/sandbox", undefined, "../../../../etc/shadow", "/etc/shadow"],
  ["/", undefined, ".", "/"],
  ["/home", undefined, "./a//b/./c/..", "/home/a/b"],
])("in %s with cwd %s, %s is %s", (home, cwd, path, expected) => {
  expect(resolvePath(home, cwd, path)).toBe(expected);
});
