/** Copies that are made in advance, in a store that fails meanwhile. */

import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { Spares } from "./spares.ts";

test("a layer gets its folder once, and again after it was deleted", async () => {
  const folder = join(await tempDir(), "spares");
  const copy = (_: string, to: string) => mkdir(to);
  const spares = new Spares({ folder, copy, discard: async () => undefined });
  await spares.open(() => true);
  await spares.add("layer", "volume");
  await spares.add("layer", "volume");
  expect(await readdir(join(folder, "layer"))).toHaveLength(2);
  // As the command line does when it deletes the layer.
  await rm(join(folder, "layer"), { recursive: true });
  await expect(spares.add("layer", "volume")).rejects.toMatchObject({ code: "ENOENT" });
  await spares.add("layer", "volume");
  expect(await readdir(join(folder, "layer"))).toHaveLength(1);
});

test("a copy of a layer that is gone is given up, even where nothing can be deleted", async () => {
  const folder = await tempDir();
  const { promise: tried, resolve } = Promise.withResolvers<void>();
  const spares = new Spares({
    folder: join(folder, "spares"),
    copy: async () => undefined,
    discard: async () => {
      resolve();
      throw new Error("Read-only file system");
    },
  });
  await spares.open(() => true);
  spares.restock("layer", join(folder, "missing"));
  await tried;
  // A rejection that nothing handles would fail this test's run.
  await expect(spares.close()).resolves.toBeUndefined();
});
