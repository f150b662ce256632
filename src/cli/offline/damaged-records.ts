/** Finds the records of a store that were set aside because they and their copies are damaged (kept-record.ts). */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

const ending = ".json.damaged";
/** where records lie; those of machines are in a folder for each */
const folders = ["machines", "snapshots", "images"];

/** paths of the damaged files that no good record has taken the place of */
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
    // not there, or a file
    return [];
  }
}
