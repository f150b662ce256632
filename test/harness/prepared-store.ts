/**
 * A store with the default image and a database, for the data directories of tests: made once in a run and then copied.
 * A first start makes the store. That takes seconds of both processors, and over a hundred test files need one.
 *
 * A runtime that opens a copy checks it like that of any earlier start: if its settings ask for another default image,
 * it makes that. Tests of a first start ask for none.
 */

import { execFile } from "node:child_process";
import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { runFolder } from "../runner/run-folder.ts";
import { madeOnce } from "./made-once.ts";

const run = promisify(execFile);

/** exists where the kernel mounts a copy of a file system beside the original, from 6.7 on */
const mountsCopies = "/sys/fs/btrfs/features/temp_fsid";

/**
 * Puts the store into an empty data directory. `make` makes a store in another one, and leaves it unmounted; `kind` is
 * a name for the stores that it makes.
 */
export async function prepareStore(
  dataDir: string,
  kind: string,
  make: (dataDir: string) => Promise<void>,
): Promise<void> {
  const shared = runFolder();
  if (shared === undefined || !existsSync(mountsCopies)) return;
  const original = join(shared, `store-${kind}`);
  await madeOnce(original, () => make(original));
  const image = join(original, "store.btrfs");
  // On btrfs a store is a folder, and without btrfs too.
  if (!existsSync(image)) return;
  await run("cp", ["--sparse=always", "--preserve=mode", image, join(dataDir, "store.btrfs")]);
  copyFileSync(join(original, "store.json"), join(dataDir, "store.json"));
  // What is hidden of the host, which takes a search of the host.
  const masks = join(original, "masks");
  if (existsSync(masks)) await run("cp", ["-a", masks, join(dataDir, "masks")]);
}

/** Puts an empty database of this version into a data directory: its migrations are a tenth of a daemon's first start. */
export async function prepareDatabase(dataDir: string): Promise<void> {
  const shared = runFolder();
  if (shared === undefined) return;
  const original = join(shared, "empty.db");
  await madeOnce(original, async () => {
    // Only the process that makes it loads the code for it.
    const { openStore } = await import("../../src/store/sql-store.ts");
    await (await openStore({ path: original })).close();
  });
  copyFileSync(original, join(dataDir, "sandkeep.db"));
}
