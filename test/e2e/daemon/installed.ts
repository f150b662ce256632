/**
 * Sandkeep as `npm install --global` leaves it: packed, and installed into a prefix of its own by a given npm. The
 * registry may be unreachable; then there is no installation, but a reason.
 */

import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { root, tempDir, type Undo } from "../../harness/harness.ts";
import { outOfReach } from "../../runner/excuses.ts";

const execute = promisify(execFile);

export interface Installation {
  /** its `sandkeep` */
  command: string;
  /** the package's folder */
  folder: string;
  /** has `sandkeep` and the Node that installed it */
  path: string;
}

/** How to run npm: a program and its first arguments. */
export interface Npm {
  command: [string, ...string[]];
  /** PATH for the program */
  path: string;
}

/** the tarball, as `npm pack` makes it */
export async function pack(undo: Undo, npm: Npm): Promise<string> {
  const folder = await tempDir(undo);
  await runNpm(npm, ["pack", "--pack-destination", folder], root);
  const [tarball] = readdirSync(folder);
  if (tarball === undefined) throw new Error("npm pack has made nothing");
  return join(folder, tarball);
}

export async function install(undo: Undo, npm: Npm, tarball: string): Promise<Installation> {
  const prefix = await tempDir(undo);
  await runNpm(npm, ["install", "--global", "--prefix", prefix, "--prefer-offline", tarball], prefix);
  return {
    command: join(prefix, "bin/sandkeep"),
    folder: join(prefix, "lib/node_modules/sandkeep"),
    path: [join(prefix, "bin"), npm.path].join(delimiter),
  };
}

/** npm and Node of this host, without the folders that npm puts on PATH while it runs a script */
export function hostNpm(): Npm {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const path = folders.filter((folder) => !folder.endsWith("node_modules/.bin")).join(delimiter);
  return { command: ["npm"], path };
}

/** Node of this major version and its npm, as packages of the registry in a folder of their own */
export async function npmOf(undo: Undo, major: number): Promise<Npm> {
  const folder = await tempDir(undo);
  const packages = [`node-linux-${process.arch}@${major}`, `npm@${major < 24 ? 10 : 11}`];
  await runNpm(hostNpm(), ["install", "--prefix", folder, "--prefer-offline", "--force", ...packages], folder);
  const bin = join(folder, `node_modules/node-linux-${process.arch}/bin`);
  return {
    command: [join(bin, "node"), join(folder, "node_modules/npm/bin/npm-cli.js")],
    path: [bin, hostNpm().path].join(delimiter),
  };
}

/** why npm failed, if it was because of the registry; other errors are thrown again */
export function unreachable(error: unknown): string {
  const said = error instanceof Error && "stderr" in error ? String(error.stderr) : "";
  if (!/\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENOTCACHED)\b/.test(said)) throw error;
  return outOfReach("the npm registry");
}

async function runNpm({ command: [program, ...first], path }: Npm, args: string[], cwd: string): Promise<void> {
  // Settings of the npm that runs this test are for another package and prefix; only the registry is the same.
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^npm_/i.test(name) || /^npm_config_(cache|registry|userconfig)$/i.test(name),
  );
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=0"];
  await execute(program, [...first, ...args, ...quiet], { cwd, env: { ...Object.fromEntries(inherited), PATH: path } });
}
