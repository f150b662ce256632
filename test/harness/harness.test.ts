/** Tests of what the other tests lean on: a harness that never fails would let everything pass. */

import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { eventually, tempDir } from "./harness.ts";

describe("tempDir", () => {
  test("removes the directory and what is in it when its stack is undone", async () => {
    const undo = new AsyncDisposableStack();
    const path = await tempDir(undo);
    await writeFile(join(path, "file"), "content");
    await undo.disposeAsync();
    expect(existsSync(path)).toBe(false);
  });

  test("gives each caller a directory of its own", async () => {
    expect(await tempDir()).not.toBe(await tempDir());
  });
});

describe("eventually", () => {
  test("returns the first value that is neither undefined nor false", async () => {
    const values = [undefined, false, 0] as const;
    let calls = 0;
    expect(await eventually("a value", () => values[calls++])).toBe(0);
  });

  test("fails with what was waited for and the last error", async () => {
    const cause = new Error("not there");
    const waiting = eventually("the file appears", () => Promise.reject(cause), { timeoutMs: 20 });
    await expect(waiting).rejects.toMatchObject({ message: "Waited 20 ms in vain: the file appears", cause });
  });
});
