/** Paths of this package's own files: in a clone, where Node runs src/, and installed, where it runs dist/. */

import { realpathSync } from "node:fs";
import { delimiter, extname, join } from "node:path";
import { packageFolder } from "../base/files/package-folder.ts";

/** the package's folder */
export const root = packageFolder;

/** whether Node runs the sources directly */
export const isClone = extname(import.meta.filename) === ".ts";

/** the `sandkeep` command */
export const launcher = join(root, "bin/sandkeep");

/** Node's cache of our compiled modules, with a folder for each user and version of Node */
export const compileCache = join(root, ".compile-cache");

/** files that programs with a vendor's SDK load; the same in a clone and installed */
export const redirects = join(root, "src/redirect");

/** the main module of the `sandkeep` command */
export const mainModule = join(root, isClone ? "src/main.ts" : "dist/main.js");

/** the main module of the egress process */
export const egressMain = join(root, isClone ? "src/egress/main.ts" : "dist/egress.js");

/** the dashboard's files: its modules are with the daemon's, its styles are the same in a clone and installed */
export const dashboardFiles = { modules: join(root, isClone ? "src" : "dist"), styles: join(root, "src/web") };

/** The command that runs this Sandkeep: its name if PATH leads here, else its path. Not quoted for a shell. */
export function ownCommand(environment: NodeJS.ProcessEnv): string {
  const folders = (environment.PATH ?? "").split(delimiter).filter((folder) => folder.startsWith("/"));
  const first = folders.map((folder) => resolved(join(folder, "sandkeep"))).find((path) => path !== undefined);
  return first !== undefined && first === resolved(launcher) ? "sandkeep" : launcher;
}

function resolved(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}
