/**
 * The package as npm installs it, without packing it: the bundle of these sources, with links to the files that it
 * ships as they are. Daemons and commands of tests and benchmarks are this one, as users run it; tests of a clone name
 * its own `sandkeep`.
 */

import { copyFileSync, mkdirSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";

const root = join(import.meta.dirname, "../..");

/** what the package ships as it is in a clone, and the packages beside it */
const shipped = [
  "package.json",
  "node_modules",
  "guest",
  "scripts",
  "docs",
  "examples",
  "src/redirect",
  "src/web",
  "src/api/e2b/interpreter/program",
];

/** makes it in a folder, for the processes that begin from now on */
export async function makePackage(folder: string): Promise<void> {
  // Loaded here, because every process with tests loads this module.
  const { bundle } = await import("../../scripts/bundle.ts");
  await bundle(join(folder, "dist"));
  for (const path of shipped) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    symlinkSync(join(root, path), join(folder, path));
  }
  mkdirSync(join(folder, "bin"));
  copyFileSync(join(root, "bin/sandkeep"), join(folder, "bin/sandkeep"));
  process.env.TEST_PACKAGE = folder;
}

/** its `sandkeep` */
export function sandkeepCommand(): string {
  return join(made(), "bin/sandkeep");
}

/** the command line of its egress process */
export function egressCommand(): string[] {
  return [process.execPath, join(made(), "dist/egress.js")];
}

function made(): string {
  const { TEST_PACKAGE } = process.env;
  if (TEST_PACKAGE === undefined) throw new Error("Cannot run the package: this run has not made it");
  return TEST_PACKAGE;
}
