/** Lets test files, which run in processes of their own, share what takes long to make. */

import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { codeOf } from "../../src/base/error-code.ts";
import { eventually } from "./harness.ts";

/**
 * Makes the file or folder at a path unless it is there already. Of several processes one makes it and the others wait,
 * `timeoutMs` at most. If that one fails or dies, the next one tries.
 */
export async function madeOnce(path: string, make: () => Promise<void>, timeoutMs = 240_000): Promise<void> {
  const [done, lock] = [`${path}.made`, `${path}.lock`];
  mkdirSync(dirname(path), { recursive: true });
  const turn = () => existsSync(done) || hasLocked(lock);
  await eventually(`"${path}" is made or can be made`, turn, { timeoutMs });
  if (existsSync(done)) return releaseOwn(lock);
  try {
    rmSync(path, { recursive: true, force: true });
    await make();
    writeFileSync(done, "");
  } finally {
    releaseOwn(lock);
  }
}

/** whether this process has the lock now; the lock of a dead process is broken */
function hasLocked(lock: string): boolean {
  try {
    writeFileSync(lock, `${process.pid}`, { flag: "wx" });
    return true;
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
    const owner = ownerOf(lock);
    // Empty for the moment between its creation and the writing of its content.
    if (owner !== undefined && owner !== "" && !existsSync(`/proc/${owner}`)) rmSync(lock, { force: true });
    return false;
  }
}

function releaseOwn(lock: string): void {
  if (ownerOf(lock) === `${process.pid}`) rmSync(lock, { force: true });
}

function ownerOf(lock: string): string | undefined {
  try {
    return readFileSync(lock, "utf8");
  } catch {
    return undefined;
  }
}
