/** Finds records of a store that were set aside because they and their copies are damaged (kept-record.ts). */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

const ending = ".json.damaged";
/** folders with records; each machine has its own folder */
const folders = ["machines", "snapshots", "images"];

/** paths of the damaged files that no intact record has replaced */
export function damagedRecords(dataDir: string): string[] {
  const store = join(dataDir, "store");
  const places = folders.map((name) => join(store, name));
  const machines = names(join(store, "machines")).map((name) => join(store, "machines", name));
  return [...places, ...machines]
    .flatMap((folder) => names(folder).map((name) => join(folder, name)))
    .filter((path) => path.endsWith(ending) && !existsSync(path.slice(0, -".damaged".length)));
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // missing, or a file
    return [];
  }
}
