/** Makes and copies volumes; on file systems without volumes, directories take their place. */

import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { promisify } from "node:util";
import { isSandkeepError } from "../../../core/model/errors.ts";
import type { LayerTools } from "./layers.ts";

const run = promisify(execFile);

export async function createVolume(tools: Pick<LayerTools, "createVolume">, path: string): Promise<void> {
  try {
    await tools.createVolume(path);
  } catch (error) {
    // A file system without volumes: a directory works too, only slower to copy and to delete.
    if (!isSandkeepError(error, "unsupported")) throw error;
    await mkdir(path, { mode: 0o700 });
  }
}

/** `limit` in bytes, 0 for none; directories have none */
export async function copyVolume(
  tools: Pick<LayerTools, "snapshotVolume">,
  from: string,
  to: string,
  limit = 0,
): Promise<void> {
  try {
    await tools.snapshotVolume(from, to, limit);
  } catch (error) {
    if (!isSandkeepError(error, "unsupported")) throw error;
    await run("cp", ["-a", "--reflink=auto", from, to]);
  }
}

/** ignores that another process made it at the same moment */
export function unlessThere(error: unknown): void {
  if (!isSandkeepError(error, "exists") && (error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
}
