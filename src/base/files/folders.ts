/**
 * Makes folders together with those above them. Node's recursive mkdir alone hides why it failed: after an error that it
 * does not know, such as a read-only disk or a reached quota, it reports that the folder is missing.
 */

import { existsSync, mkdirSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { codeOf } from "../error-code.ts";

/** no error if it exists; throws the kernel's own error if it cannot be made */
export async function makeFolder(path: string, mode?: number): Promise<void> {
  await mkdir(path, { recursive: true, mode }).catch((error) => explained(error, path, mode));
}

/** the same, synchronously */
export function makeFolderSync(path: string, mode?: number): void {
  try {
    mkdirSync(path, { recursive: true, mode });
  } catch (error) {
    explained(error, path, mode);
  }
}

/** "a", "a/b" of the relative path "a/b/c" */
export function parentsOf(path: string): string[] {
  const parent = dirname(path);
  return parent === "." ? [] : [...parentsOf(parent), parent];
}

/** tries again without the search: the first folder that is missing says why it cannot be made */
function explained(error: unknown, path: string, mode: number | undefined): void {
  if (codeOf(error) !== "ENOENT") throw error;
  let missing = path;
  while (!existsSync(dirname(missing))) missing = dirname(missing);
  try {
    mkdirSync(missing, { mode });
  } catch (reason) {
    // Another process may have made it meanwhile.
    if (codeOf(reason) !== "EEXIST") throw reason;
  }
  mkdirSync(path, { recursive: true, mode });
}
