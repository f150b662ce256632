/** One daemon for a data directory: a lock on a file in it, which the kernel takes from a process that dies, however. */

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SandkeepError } from "../../core/model/errors.ts";
import { lockFile } from "./sqlite.ts";

/**
 * Locks the directory for this process, whatever path names it; the result releases it. `purpose` is for the error
 * message.
 */
export function lockDirectory(directory: string, purpose: "serve" | "recover" = "serve"): () => void {
  const holder = join(directory, "daemon.pid");
  const lock = lockFile(join(directory, "daemon.lock"));
  if (!lock) {
    throw new SandkeepError("conflict", `Cannot ${purpose} "${directory}": another daemon uses it${processIn(holder)}`);
  }
  writeFileSync(holder, `${process.pid}\n`, { mode: 0o600 });
  return () => {
    rmSync(holder, { force: true });
    lock.release();
  };
}

/** as lockDirectory(); undefined where another process has it */
export function lockIfFree(directory: string): (() => void) | undefined {
  const lock = lockFile(join(directory, "daemon.lock"));
  return lock && (() => lock.release());
}

/** the process that its holder wrote down just after it took the lock; empty if it did not yet */
function processIn(holder: string): string {
  try {
    return ` (process ${Number.parseInt(readFileSync(holder, "utf8"), 10)})`;
  } catch {
    return "";
  }
}
