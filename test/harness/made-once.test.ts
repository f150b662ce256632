/** Tests of what test files share: it is made once, and a maker that fails or dies does not keep others from it. */

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "./harness.ts";
import { madeOnce } from "./made-once.ts";

test("of several that want it one makes it, and the others wait until it is complete", async () => {
  const path = join(await tempDir(), "folder/shared");
  let made = 0;
  const want = async () => {
    await madeOnce(path, async () => {
      made++;
      writeFileSync(path, "half");
      await new Promise((resolve) => setTimeout(resolve, 20));
      writeFileSync(path, "complete");
    });
    return readFileSync(path, "utf8");
  };
  expect(await Promise.all([want(), want(), want()])).toEqual(["complete", "complete", "complete"]);
  expect(await want()).toBe("complete");
  expect(made).toBe(1);
});

test("if its maker fails or has died, the next one makes it from nothing", async () => {
  const path = join(await tempDir(), "shared");
  const failing = madeOnce(path, async () => {
    writeFileSync(path, "half");
    throw new Error("no");
  });
  await expect(failing).rejects.toThrow("no");
  // No process has such a number.
  writeFileSync(`${path}.lock`, "4194305");
  await madeOnce(path, async () => {
    expect(existsSync(path)).toBe(false);
    writeFileSync(path, "complete");
  });
  expect(readFileSync(path, "utf8")).toBe("complete");
});
