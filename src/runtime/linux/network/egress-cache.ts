/**
 * Node's cache of the compiled modules of the egress process, in a clone. Without it the process strips the types of its
 * sources itself at each start, which takes 23 MB of memory for its whole life. It may write no file, so the daemon makes
 * the cache, beside its other work: the next egress process uses it. Installed packages have no types to strip.
 */

import { execFile } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { egressUser } from "../machines/plan.ts";
import { packageOf } from "./egress-view.ts";

const run = promisify(execFile);

/** folders of our sources that it imports */
const parts = ["egress", "core", "protocols", "base"];
/** how long it may take to compile everything, in ms */
const patience = 60_000;

/** the folder with the cache for the sources as they are now; undefined if there is none yet */
export function egressCache(command: readonly string[]): string | undefined {
  const folder = folderOf(command);
  return folder !== undefined && existsSync(folder) ? folder : undefined;
}

/** makes the cache if it is missing, and deletes those of other sources */
export async function makeEgressCache(command: readonly string[]): Promise<void> {
  const folder = folderOf(command);
  if (folder === undefined || existsSync(folder)) return;
  const parent = dirname(folder);
  await mkdir(parent, { recursive: true });
  const made = await mkdtemp(join(parent, "new-"));
  try {
    const [node = "", main = ""] = command;
    // Without a channel it ends as soon as its modules are loaded.
    await run(node, [main], { cwd: "/", env: { NODE_COMPILE_CACHE: made }, timeout: patience });
    await openTo(egressUser, made);
    await rename(made, folder).catch((error) => {
      // Another daemon may have been faster.
      if (!existsSync(folder)) throw error;
    });
  } finally {
    await rm(made, { recursive: true, force: true });
  }
  for (const name of await readdir(parent)) {
    const path = join(parent, name);
    // A daemon that died may have left a new one.
    const isInUse =
      name === basename(folder) || (name.startsWith("new-") && Date.now() - statSync(path).ctimeMs < patience);
    if (!isInUse) await rm(path, { recursive: true, force: true });
  }
}

/** Node has a folder for each user in its cache, and creates files that no one else can read */
async function openTo(user: number, cache: string): Promise<void> {
  await chmod(cache, 0o755);
  for (const name of await readdir(cache)) {
    const folder = join(cache, name.replace(/-\d+$/, `-${user}`));
    await rename(join(cache, name), folder);
    await chmod(folder, 0o755);
    for (const file of await readdir(folder)) await chmod(join(folder, file), 0o644);
  }
}

/** undefined outside of a clone */
function folderOf([, main = ""]: readonly string[]): string | undefined {
  if (!main.endsWith(".ts")) return undefined;
  const sources = dirname(dirname(main));
  if (!parts.every((part) => existsSync(join(sources, part)))) return undefined;
  const times = parts.flatMap((part) => {
    const folder = join(sources, part);
    const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
    return files.map((name) => statSync(join(folder, name)).mtimeMs);
  });
  const version = `${process.version}-${Math.max(...times)}`;
  return join(packageOf(main), ".compile-cache/egress", version);
}
