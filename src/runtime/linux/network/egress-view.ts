/**
 * What the egress process sees of the host's files: Node, its libraries and our own code, all of them public, and nothing
 * else (guest/egress/keeper.h says what is done with it). It decides for all sandboxes and reads what hostile programs send, so
 * an attacker who takes it over must find no key, no socket and no file of a user there.
 */

import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { SandkeepError } from "../../../core/model/errors.ts";

/** paths that it may read, links included; `command` is its command line, with real paths */
export function egressView([node = "", main = ""]: readonly string[]): string[] {
  const folder = packageOf(main);
  const code = join(folder, relative(folder, main).split("/")[0] ?? "");
  const modules = [join(folder, "node_modules"), ...(inModules(folder) ? [modulesAround(folder)] : [])];
  const shown = [
    ...libraryFolders,
    ...mappedFolders(),
    // Debian's Node has parts of itself there.
    "/usr/share/nodejs",
    "/etc/ld.so.cache",
    "/dev/null",
    "/dev/urandom",
    node,
    join(folder, "package.json"),
    code,
    // Where it is a link, what it leads to has to be there as well.
    ...modules.filter(existsSync).flatMap((path) => [path, realpathSync(path)]),
  ];
  return [...new Set(shown)].filter(existsSync);
}

/** the command line as it is without links, none of which the process could follow */
export function realCommand([node = "", main = "", ...rest]: readonly string[]): string[] {
  const files = [realpathSync(node), realpathSync(main)];
  const closed = files.find((path) => (statSync(path).mode & 0o004) === 0);
  if (closed !== undefined) {
    const why = `it does not run as root, and other users cannot read "${closed}"`;
    const folder = packageOf(files[1] ?? "");
    const opened = closed.startsWith(`${folder}/`) ? folder : closed;
    throw new SandkeepError("conflict", `Cannot start the egress process: ${why}\nhint: chmod -R a+rX "${opened}"`);
  }
  return [...files, ...rest];
}

/** those above come first, as links at the root lead below /usr */
const libraryFolders = ["/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib32", "/lib64"];

/** where this very process, which is the same Node, has its libraries from, on hosts that have them elsewhere */
function mappedFolders(): string[] {
  const maps = readFileSync("/proc/self/maps", "utf8");
  const libraries = [...maps.matchAll(/ (\/\S+\.so[.\d]*)$/gm)].map(([, path = ""]) => dirname(path));
  return [...new Set(libraries)].filter((path) => !libraryFolders.some((known) => `${path}/`.startsWith(`${known}/`)));
}

/** the folder of the package that a file belongs to */
export function packageOf(file: string): string {
  for (let folder = dirname(file); folder !== "/"; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json"))) return folder;
  }
  return dirname(file);
}

/** whether the package is installed beside what it needs */
function inModules(folder: string): boolean {
  return modulesAround(folder) !== "/";
}

function modulesAround(folder: string): string {
  let at = dirname(folder);
  while (at !== "/" && basename(at) !== "node_modules") at = dirname(at);
  return at;
}
