/** Paths of this package's own files: in a clone, where Node runs src/, and installed, where it runs dist/. */

import { realpathSync } from "node:fs";
import { delimiter, extname, join } from "node:path";

/** the package's folder */
export const root = join(import.meta.dirname, "../..");

/** whether Node runs the sources directly */
export const isClone = extname(import.meta.filename) === ".ts";

/** the `sandkeep` command */
export const launcher = join(root, "bin/sandkeep");

/** Node's cache of our compiled modules, with a folder for each user and version of Node */
export const compileCache = join(root, ".compile-cache");

/** files that programs with a vendor's SDK load; the same in a clone and installed */
export const redirects = join(root, "src/redirect");

/** the main module of the `sandkeep` command */
export const mainModule = join(import.meta.dirname, "..", `main${extname(import.meta.filename)}`);

/** the main module of the egress process */
export const egressMain = join(import.meta.dirname, "../egress", `main${extname(import.meta.filename)}`);

/** the dashboard's files: its modules are with the daemon's, its styles are the same in a clone and installed */
export const dashboardFiles = { modules: join(import.meta.dirname, ".."), styles: join(root, "src/web") };

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
