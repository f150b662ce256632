/** A module that is loaded once, and one whose file is gone. */

import { expect, test } from "vitest";
import { loadedLater } from "./loaded-later.ts";

test("a module is loaded once, and again if that failed", async () => {
  let loads = 0;
  const load = loadedLater(async () => {
    if (++loads === 1) throw new Error("once");
    return loads;
  });
  await expect(load()).rejects.toThrow("once");
  expect([await load(), await load()]).toEqual([2, 2]);
});

test("a file that is gone means that the package was replaced", async () => {
  // A name that only the run knows, as those of a bundle are.
  const gone = `./gone-${"x".repeat(3)}.ts`;
  const load = loadedLater(() => import(/* @vite-ignore */ new URL(gone, import.meta.url).href));
  await expect(load()).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining(
      "another build of Sandkeep was installed since this daemon began; restart the daemon",
    ),
  });
});
