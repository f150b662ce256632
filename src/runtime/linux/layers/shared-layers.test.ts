/** How layers beside the store are made once, found again and deleted, on the guest's real file code. */

import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { useLayerTools } from "../../../../test/harness/images/layer-tools.ts";
import { SharedLayers } from "./shared-layers.ts";

const { tools } = useLayerTools();

test("a layer is made once for all that ask, and a failed one leaves nothing", async () => {
  const folder = join(await tempDir(), "shared");
  const shared = new SharedLayers(folder, tools);
  await shared.open(() => false);
  let made = 0;
  const build = () =>
    shared.make("one", async (folder) => {
      made += 1;
      await writeFile(join(folder, "motd"), "hello");
    });
  await Promise.all([build(), build()]);
  await build();
  expect(made).toBeLessThanOrEqual(2); // the first two builds started at the same moment
  expect(await readFile(join(shared.path("one"), "motd"), "utf8")).toBe("hello");
  await expect(shared.make("two", () => Promise.reject(new Error("no more")))).rejects.toThrow("no more");
  expect(await readdir(folder)).toEqual(["one"]);
});

test("folders without a layer and the leftovers of dead processes are gone after the next start", async () => {
  const folder = join(await tempDir(), "shared");
  for (const name of ["known", "unknown", "999999999-1-abc"]) await mkdir(join(folder, name), { recursive: true });
  await new SharedLayers(folder, tools).open((id) => id === "known");
  expect(await readdir(folder)).toEqual(["known"]);
});
