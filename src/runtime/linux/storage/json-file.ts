/** Small JSON files that either exist whole or not at all, also after a crash. */

import { randomBytes } from "node:crypto";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { open, readdir, readFile, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { z } from "zod";
import { codeOf } from "../../../base/error-code.ts";
import { makeFolder } from "../../../base/files/folders.ts";
import { messageOf, SandkeepError } from "../../../core/model/errors.ts";

/**
 * replaces the file. With `durable`, the default, it is on the disk when this resolves; otherwise the next flush of the
 * file system writes it
 */
export async function writeJson(path: string, record: object, options: { durable?: boolean } = {}): Promise<void> {
  const { durable = true } = options;
  const fresh = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString("hex")}`);
  const text = `${JSON.stringify(record, null, 2)}\n`;
  if (!durable) {
    writeToMemory(fresh, path, text);
    return;
  }
  try {
    const file = await open(fresh, "wx", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(fresh, path);
  } catch (error) {
    await rm(fresh, { force: true });
    throw error;
  }
  await syncDirectory(dirname(path));
}

/** synchronous: handing each step to another thread would take five times as long as all of them */
function writeToMemory(fresh: string, path: string, text: string): void {
  try {
    writeFileSync(fresh, text, { flag: "wx", mode: 0o600 });
    renameSync(fresh, path);
  } catch (error) {
    rmSync(fresh, { force: true });
    throw error;
  }
}

/** undefined when there is no such file */
export async function readJson<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  const text = await textIfThere(path);
  if (text === undefined) return undefined;
  try {
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new SandkeepError("internal", `Cannot read the record "${path}": ${messageOf(cause)}`, { cause });
  }
}

/** undefined when there is no such file */
export async function textIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** names of the records in a folder, without their ".json"; none when the folder is missing */
export async function jsonNames(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch((error) => {
    if (isMissing(error)) return [];
    throw error;
  });
  return names
    .filter((name) => name.endsWith(".json") && !name.startsWith("."))
    .map((name) => name.slice(0, -".json".length));
}

/** makes a folder that only the daemon's user can read */
export async function makePrivate(folder: string): Promise<void> {
  await makeFolder(folder, 0o700);
}

/** a rename is on the disk only after its directory has been flushed */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** also true below a path that is not a folder, where nothing can exist */
export function isMissing(error: unknown): boolean {
  return ["ENOENT", "ENOTDIR"].includes(codeOf(error) ?? "");
}
