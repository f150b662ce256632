/**
 * npm packages that only one test file needs, too large for devDependencies: a folder with its own lockfile, installed
 * at first use, and kept in node_modules/.cache for later runs.
 */

import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { cp, mkdir, readdir, readFile, rm, symlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, type TestContext } from "vitest";
import { outOfReach } from "../runner/excuses.ts";
import { root, tempDir } from "./harness.ts";
import { madeOnce } from "./made-once.ts";

const run = promisify(execFile);
const cache = join(root, "node_modules/.cache/sandkeep-tests");
/** longest time to fetch everything, in ms: hundreds of megabytes, over any connection */
const installTime = 15 * 60_000;
/** errors of npm without a registry; a wrong lockfile gives other ones */
const unreachable = /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET)/;

export interface PackageFolder {
  /** a copy of the folder with its packages installed; skips the test if the npm registry cannot be reached */
  copy(context: TestContext): Promise<string>;
}

/** the folder of this name below test/, with the package.json and package-lock.json to install */
export function packageFolderOfFile(name: string): PackageFolder {
  const folder = join(root, "test", name);
  let modules: string | undefined;
  beforeAll(async () => {
    modules = await installed(folder);
  }, installTime);
  return {
    async copy(context) {
      if (modules === undefined) return context.skip(outOfReach("the npm registry"));
      const copy = join(await tempDir(), name);
      await cp(folder, copy, { recursive: true });
      await symlink(modules, join(copy, "node_modules"));
      return copy;
    },
  };
}

/** the folder with the installed packages; undefined if they are missing and cannot be fetched */
async function installed(folder: string): Promise<string | undefined> {
  const lock = await readFile(join(folder, "package-lock.json"));
  const kept = join(cache, createHash("sha256").update(lock).digest("hex").slice(0, 16));
  const modules = join(kept, "node_modules");
  try {
    await madeOnce(kept, () => install(folder, kept), installTime);
  } catch (error) {
    if (unreachable.test(String(error))) return undefined;
    throw error;
  }
  return modules;
}

async function install(folder: string, kept: string): Promise<void> {
  // Those of other lockfiles are never used again.
  const others = (await readdir(cache)).filter((name) => !name.startsWith(basename(kept)));
  for (const name of others) await rm(join(cache, name), { recursive: true, force: true });
  await mkdir(kept);
  for (const file of [".npmrc", "package.json", "package-lock.json"]) await cp(join(folder, file), join(kept, file));
  await run("npm", ["ci", "--ignore-scripts", "--prefer-offline", "--loglevel=error"], { cwd: kept });
}
