/** Creates the directories that settings name; an error says which setting names a directory that cannot be used. */

import { existsSync, mkdirSync, mkdtempSync, rmdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { codeOf } from "../base/error-code.ts";
import { messageOf, SandkeepError } from "../core/model/errors.ts";

/** A directory that a setting names. */
export interface NamedDirectory {
  path: string;
  /** what it is, for people: "data directory" */
  what: string;
  /** the setting's flag and variable: "--data-dir or SANDKEEP_DATA_DIR" */
  setting: string;
}

export function dataDirectory(path: string): NamedDirectory {
  return { path, what: "data directory", setting: "--data-dir or SANDKEEP_DATA_DIR" };
}

/** bytes of the longest path that the kernel accepts for a socket, and of the longest name of one in a run directory */
const longestSocketPath = 107;
const longestSocketName = "/0123456789ab/m/m0123456789abcdef.sock".length;
/** bytes that the path of a run directory may have */
export const longestRunDirectory = longestSocketPath - longestSocketName;

/** throws if the paths of sockets in it would be too long for the kernel */
export function runDirectory(path: string): NamedDirectory {
  const setting = "--run-dir or SANDKEEP_RUN_DIR";
  const length = Buffer.byteLength(path);
  if (length <= longestRunDirectory) return { path, what: "run directory", setting };
  const why = `its path has ${length} bytes, and sockets in it can be used only up to ${longestRunDirectory}`;
  throw new SandkeepError(
    "invalid",
    `Cannot use the run directory "${path}": ${why}\nhint: ${setting} names another one`,
  );
}

/** files that every start leaves in a data directory, and of which a loss may leave only some */
const traces = ["identity.json", "store.json", "store.btrfs", "ledger.jsonl"];

/** throws unless a daemon has used the directory before, and changes nothing */
export function requireUsedDirectory({ path, what, setting }: NamedDirectory, purpose: string): void {
  const found = statSync(path, { throwIfNoEntry: false });
  const hint = `hint: ${setting} names another one`;
  if (!found?.isDirectory())
    throw new SandkeepError("not-found", `Cannot ${purpose} "${path}": there is no such directory\n${hint}`);
  if (traces.some((name) => existsSync(join(path, name)))) return;
  const why = `it is not a ${what}, as it has none of ${traces.join(", ")}`;
  throw new SandkeepError("invalid", `Cannot ${purpose} "${path}": ${why}\n${hint}`);
}

/** Makes the directory and those above it, and checks that files can be made in it; the result removes those that it made. */
export function makeDirectory({ path, what, setting }: NamedDirectory): () => void {
  const made: string[] = [];
  const removeMade = () => {
    for (const directory of made.toReversed()) removeEmpty(directory);
  };
  try {
    for (const directory of missingOf(path)) {
      mkdirSync(directory, { mode: 0o700 });
      made.push(directory);
    }
    probe(path);
  } catch (cause) {
    removeMade();
    const hint = `hint: ${setting} names another one`;
    throw new SandkeepError("invalid", `Cannot use the ${what} "${path}": ${whyOf(cause)}\n${hint}`, { cause });
  }
  return removeMade;
}

/**
 * The directories that are to be made, outermost first. mkdirSync would make them itself, but never returns below a
 * directory such as /proc, where a directory that exists answers ENOENT.
 */
function missingOf(path: string): string[] {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory()) return [];
  if (found) throw new NotADirectory(path);
  return [...missingOf(dirname(path)), path];
}

/** A full disk is no reason to refuse it: existing sandboxes can be served, and each operation checks for room. */
function probe(path: string): void {
  try {
    rmdirSync(mkdtempSync(join(path, ".sandkeep-")));
  } catch (error) {
    if (codeOf(error) !== "ENOSPC") throw error;
  }
}

class NotADirectory extends Error {
  constructor(path: string) {
    super(`"${path}" is not a directory`);
  }
}

const reasons: Record<string, string> = {
  ENOENT: "its file system does not let directories and files be made there",
  EACCES: "this user may not write there",
  EPERM: "this user may not write there",
  EROFS: "its file system is read-only",
  ENOTDIR: "a part of the path is not a directory",
};

function whyOf(cause: unknown): string {
  return reasons[codeOf(cause) ?? ""] ?? messageOf(cause);
}

/** keeps a directory that is not empty by now */
function removeEmpty(directory: string): void {
  try {
    rmdirSync(directory);
  } catch {
    // It is in use, or gone.
  }
}
