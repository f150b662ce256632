/** What the tools tell a model about a sandbox that differs from what it asked for. */

import { expect, test } from "vitest";
import { runtimeNote } from "./print.ts";

test("another runtime than the one that was asked for is a note, and the same one is not", () => {
  const base = { image: "host", runtime: "node24", cwd: "/", user: "root" };
  expect(runtimeNote("node24", base)).toBe(undefined);
  expect(runtimeNote(undefined, base)).toBe(undefined);
  expect(runtimeNote("python3.13", base)).toBe(
    'No image named "python3.13" is here, so the default image "host" runs, which may have other versions: run node --version or python3 --version to see them.',
  );
});
