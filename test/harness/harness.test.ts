/** Tests of the harness: one that never fails would let every other test pass. */

import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { eventually, tempDir } from "./harness.ts";

describe("tempDir", () => {
  test("removes the directory and its content when its stack is undone", async () => {
    const undo = new AsyncDisposableStack();
    const path = await tempDir(undo);
    await writeFile(join(path, "file"), "content");
    await undo.disposeAsync();
    expect(existsSync(path)).toBe(false);
  });

  test("gives each caller its own directory", async () => {
    expect(await tempDir()).not.toBe(await tempDir());
  });
});

describe("eventually", () => {
  test("returns the first value that is neither undefined nor false", async () => {
    const values = [undefined, false, 0] as const;
    let calls = 0;
    expect(await eventually("a value", () => values[calls++])).toBe(0);
  });

  test("fails with the name of the condition and the last error", async () => {
    const cause = new Error("not there");
    const waiting = eventually("the file appears", () => Promise.reject(cause), { timeoutMs: 20 });
    await expect(waiting).rejects.toMatchObject({ message: "Waited 20 ms in vain: the file appears", cause });
  });
});
