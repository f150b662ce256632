/**
 * What sandboxes of the default image see of this host: named directories of /usr and of dpkg's database, without
 * anything in them that is closed to other users of the host.
 *
 * Files keep their owner and their mode inside, so root inside could read files that only the host's root may read.
 * `closedIn()` finds these: a file that others may neither read nor run, a directory that others may not list or enter,
 * and anything that is neither a file, a directory nor a link. It leaves out programs that others may run though not
 * read, such as a set-uid program with mode 4711: hidden they would not work, and any user of the host may run them.
 */

import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";

/** directories of /usr that sandboxes see */
export const shownInUsr = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "share", "include", "games"];
/** directories of dpkg's database that sandboxes see; its files are copied or made anew */
export const shownInDpkg = ["info", "alternatives", "triggers"];

/** the names at the top of one of the host's directories that sandboxes see */
function shownIn(directory: string): readonly string[] {
  return { usr: shownInUsr, dpkg: shownInDpkg }[basename(directory)] ?? [];
}

/** raise this when closedIn() finds other files than before, or masks are made otherwise */
export const closedVersion = 2;

/** sorted paths below one of the host's directories that must stay hidden; nothing below one of them is listed */
export async function closedIn(directory: string): Promise<string[]> {
  const there = new Set(readdirSync(directory));
  const names = shownIn(directory).filter((name) => there.has(name));
  if (names.length === 0) return [];
  const tests = [
    ["-type", "l"],
    ["-type", "d", "-perm", "-005"],
    ["-type", "d", "-prune", "-print0"],
    ["-type", "f", "(", "-perm", "-004", "-o", "-perm", "-001", ")"],
    ["-print0"],
  ];
  const expression = tests.flatMap((test, index) => (index === 0 ? test : ["-o", ...test]));
  const { stdout } = await run("find", ["-P", ...names, "-xdev", ...expression], {
    cwd: directory,
    maxBuffer: 64 << 20,
  }).catch(forgiveVanished);
  return stdout
    .split("\0")
    .filter((path) => path !== "")
    .sort();
}

export interface HostView {
  /** directories that sandboxes see */
  shown: string[];
  /** paths below them that are hidden */
  masked: string[];
  /** directories among the visible ones that belong to no package: software that was installed by other means */
  unpackaged: string[];
}

/** the visible part of a host; the list of its packages is completely visible */
export async function hostView(root = "/"): Promise<HostView> {
  const directories = [join(root, "usr"), join(root, "var/lib/dpkg")].filter(isThere);
  const masked = await Promise.all(
    directories.map(async (directory) => (await closedIn(directory)).map((path) => join(directory, path))),
  );
  const shown = directories.flatMap((directory) => {
    const there = new Set(readdirSync(directory));
    return shownIn(directory).flatMap((name) => (there.has(name) ? [join(directory, name)] : []));
  });
  return { shown, masked: masked.flat(), unpackaged: unpackagedIn(root, shown) };
}

/** directories directly below the visible ones that are in no package's list; empty where dpkg has no packages */
function unpackagedIn(root: string, shown: string[]): string[] {
  const info = join(root, "var/lib/dpkg/info");
  if (!isThere(info)) return [];
  const owned = new Set<string>();
  for (const name of readdirSync(info).filter((name) => name.endsWith(".list"))) {
    for (const line of readFileSync(join(info, name), "utf8").split("\n")) {
      // packages that were built before /lib was a link to /usr/lib list /lib
      const [first = "", second, third] = line.slice(1).split("/");
      if (first === "usr" && third !== undefined) owned.add(`usr/${second}/${third}`);
      else if (second !== undefined) owned.add(`usr/${first}/${second}`);
    }
  }
  return shown
    .filter((directory) => directory.startsWith(join(root, "usr/")))
    .flatMap((directory) =>
      readdirSync(directory, { withFileTypes: true })
        .filter((entry) => entry.isDirectory() && !owned.has(`usr/${basename(directory)}/${entry.name}`))
        .map((entry) => join(directory, entry.name)),
    )
    .sort();
}

const run = promisify(execFile);

/** find exits with 1 when a file vanished while it ran; otherwise its output is complete */
function forgiveVanished(error: unknown): { stdout: string } {
  if (error instanceof Error && "code" in error && error.code === 1 && "stdout" in error)
    return { stdout: String(error.stdout) };
  throw error;
}

function isThere(directory: string): boolean {
  try {
    readdirSync(directory);
    return true;
  } catch {
    return false;
  }
}
