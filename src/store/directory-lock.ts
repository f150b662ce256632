/** One daemon for a data directory: a lock on a file in it, which the kernel takes from a process that dies, however. */

import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SandkeepError } from "../core/errors.ts";
import { lockFile } from "./sqlite.ts";

/** takes the directory for this process, by whatever path it is named; what is returned gives it back */
export function lockDirectory(directory: string): () => void {
  const path = join(directory, "daemon.lock");
  const holder = join(directory, "daemon.pid");
  // Made by us, so that nobody else may open it and take the lock.
  closeSync(openSync(path, "a", 0o600));
  const lock = lockFile(path);
  if (!lock) {
    throw new SandkeepError("conflict", `Cannot serve "${directory}": another daemon uses it${processIn(holder)}`);
  }
  writeFileSync(holder, `${process.pid}\n`, { mode: 0o600 });
  return () => {
    rmSync(holder, { force: true });
    lock.release();
  };
}

/** as its holder wrote it down, a moment after it had the lock */
function processIn(holder: string): string {
  try {
    return ` (process ${Number.parseInt(readFileSync(holder, "utf8"), 10)})`;
  } catch {
    return "";
  }
}
