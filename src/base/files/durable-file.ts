/** Files that must survive a loss of power from the moment they are written: keys, and which database belongs where. */

import { closeSync, fsyncSync, openSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** replaces the file: it is on the disk, whole and under its name, when this returns. Only the daemon's user can read it */
export function writeDurably(path: string, content: string | Uint8Array): void {
  const fresh = `${path}.new`;
  const file = openSync(fresh, "w", 0o600);
  try {
    writeFileSync(file, content);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(fresh, path);
  syncDirectory(dirname(path));
}

/** a rename is on the disk once the directory it happened in is */
function syncDirectory(path: string): void {
  const directory = openSync(path, "r");
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
