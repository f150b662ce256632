/** Copies that are made in advance, in a store that fails meanwhile. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { Spares } from "./spares.ts";

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
