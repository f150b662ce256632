/**
 * Carries out the copies of a build: finds what the sources match, and unpacks it inside the sandbox that is being
 * built, which resolves every path. Files of another stage are packed inside a sandbox of their own.
 */

import { isPattern, namePattern, type Steps } from "../../base/files/path-patterns.ts";
import { isSandkeepError, SandkeepError } from "../model/errors.ts";
import type { BuildContext } from "../ports/image-builds.ts";
import type { ExtractOptions, Files, Machine } from "../ports/runtime.ts";
import { type CopyAction, isSent } from "./build-plan.ts";
import { absolutePath, baseName, parentPath } from "./paths.ts";

/** Files to copy from. Paths are absolute, from the root of the context or machine. */
export interface CopyFiles {
  /** undefined if nothing is there; follows links */
  find(path: string): Promise<FoundFile | undefined>;
  names(directory: string): Promise<string[]>;
  archive(path: string): AsyncIterable<Uint8Array>;
  /** the contents of an archive file; undefined if the file is not an archive */
  unpacked?(path: string): Promise<AsyncIterable<Uint8Array> | undefined>;
}

export interface FoundFile {
  /** its path with links resolved */
  path: string;
  isDirectory: boolean;
}

/** A file or directory that a source matches. */
export interface Match extends FoundFile {
  /** the last name of its path, as the source spells it */
  name: string;
}

const mostMatches = 10_000;
const mostLinks = 40;
/** characters: no name is longer */
const longestPattern = 255;
/** of all comparisons of a build's wildcards with names: they hold up the daemon meanwhile */
const mostSteps = 2e7;

/** what the wildcards of one build may cost */
export function copySteps(): Steps {
  return { left: mostSteps };
}

/** `keepsLinks`: whether a link that a source names is copied as a link */
export function contextFiles(context: BuildContext, { keepsLinks = false } = {}): CopyFiles {
  const plain = (path: string) => path.replace(/^\/+/, "");
  return {
    async find(path) {
      const entry = context.find(plain(path), { keepsLinks });
      return entry && { path: `/${entry.path}`, isDirectory: entry.type === "directory" };
    },
    names: async (directory) => context.names(context.find(plain(directory))?.path ?? ""),
    archive: (path) => context.archive(plain(path)),
    unpacked: (path) => context.unpacked(plain(path)),
  };
}

export function machineFiles(files: Files): CopyFiles {
  return {
    find: (path) => foundInside(files, path),
    names: async (directory) => (await files.list(directory)).map(({ name }) => name).sort(),
    // An image has no /proc, /sys and /dev of its own: they are mounted in the sandbox that packs its files.
    archive: (path) => files.archive(path, { attributes: true, skipsMounts: true }),
  };
}

/** what a source names: itself, or all that its wildcards match; fails when that is nothing, or costs too much */
export async function matchesOf(files: CopyFiles, source: string, steps = copySteps()): Promise<Match[]> {
  let paths = ["/"];
  for (const part of source.split("/").filter((part) => part !== "" && part !== ".")) {
    const next: string[] = [];
    const matches = isPattern(part) ? matcherOf(part, steps) : undefined;
    for (const path of paths) {
      spend(steps, path.length + 1);
      if (!matches) next.push(absolutePath(path, part));
      else next.push(...(await namesIn(files, path)).filter(matches).map((name) => absolutePath(path, name)));
    }
    if (next.length > mostMatches)
      throw new SandkeepError("limit", `"${source}" matches more than ${mostMatches} files`);
    paths = next;
  }
  const matches: Match[] = [];
  for (const path of paths) {
    const found = await files.find(path);
    if (found) matches.push({ ...found, name: baseName(path) });
  }
  if (matches.length === 0) throw new SandkeepError("invalid", `"${source}" names nothing that can be copied`);
  return matches;
}

function matcherOf(pattern: string, steps: Steps): (name: string) => boolean {
  if (pattern.length > longestPattern) {
    throw new SandkeepError("invalid", `"${pattern.slice(0, 100)}…" is longer than ${longestPattern} characters`);
  }
  const matches = namePattern(pattern, steps);
  return (name) => {
    spend(steps, 1);
    return matches(name);
  };
}

function spend(steps: Steps, count: number): void {
  steps.left -= count;
  if (steps.left < 0) throw new SandkeepError("limit", "it takes too long to compare so many names with wildcards");
}

async function namesIn(files: CopyFiles, directory: string): Promise<string[]> {
  return (await files.find(directory))?.isDirectory ? files.names(directory) : [];
}

/** copies into a machine; `matches` are those of all sources, in order */
export async function copyInto(
  machine: Machine,
  action: CopyAction,
  { files, matches }: { files: CopyFiles | undefined; matches: Match[] },
): Promise<void> {
  const inside = machine.files();
  const { target, inline } = action;
  const isDirectory = target.endsWith("/") || ((await foundInside(inside, target))?.isDirectory ?? false);
  if (!isDirectory && matches.length + inline.length > 1) {
    throw new SandkeepError("invalid", `several files match, and "${target}" is no directory: end it with a slash`);
  }
  const place = (name: string) => {
    return isDirectory ? { directory: target, as: name } : { directory: parentPath(target), as: baseName(target) };
  };
  const given = action.owner === undefined ? undefined : await ownerIds(machine, action.owner);
  const options: ExtractOptions = {
    owner: given ?? (isSent(action.from) ? { uid: 0, gid: 0 } : "archived"),
    attributes: true,
    ...(action.mode !== undefined && { mode: action.mode }),
  };
  for (const match of matches) {
    const archive = action.unpacks && !match.isDirectory ? await files?.unpacked?.(match.path) : undefined;
    if (archive) await inside.extract(target, archive, { ...options, owner: given ?? "archived" });
    else if (!files) continue;
    else if (match.isDirectory) await inside.extract(target, files.archive(match.path), options);
    else {
      const { directory, as } = place(match.name);
      await inside.extract(directory, files.archive(match.path), { ...options, as });
    }
  }
  for (const { name, content } of inline) {
    const { directory, as } = place(name);
    const path = absolutePath(directory, as);
    const { uid, gid } = given ?? { uid: 0, gid: 0 };
    await inside.write(path, new TextEncoder().encode(content), {
      mode: action.mode ?? 0o644,
      parents: true,
      replace: true,
    });
    await inside.chown(path, uid, gid);
    if (action.mode !== undefined) await inside.chmod(path, action.mode);
  }
}

/**
 * the ids of user[:group], by the sandbox's own passwd and group files; a numeric user without a group is its own group
 */
export async function ownerIds(machine: Machine, owner: string): Promise<{ uid: number; gid: number }> {
  const [user = "", group = user] = owner.split(":");
  const isNamed = owner.includes(":");
  const passwd = await idIn(machine, "/etc/passwd", user, "user");
  const gid = isNamed || /^\d+$/.test(user) ? (await idIn(machine, "/etc/group", group, "group")).id : passwd.group;
  return { uid: passwd.id, gid };
}

async function idIn(
  machine: Machine,
  path: string,
  name: string,
  kind: string,
): Promise<{ id: number; group: number }> {
  if (/^\d+$/.test(name)) return { id: Number(name), group: Number(name) };
  const lines = (await textOf(machine.files(), path)).split("\n").map((line) => line.split(":"));
  const [, , id, group] = lines.find(([first]) => first === name) ?? [];
  if (id === undefined) throw new SandkeepError("invalid", `the image has no ${kind} "${name}"`);
  return { id: Number(id), group: Number(group) };
}

const longestFile = 1 << 20;

async function textOf(files: Files, path: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of files.read(path, { length: longestFile })) chunks.push(chunk);
  } catch (error) {
    if (!isSandkeepError(error, "not-found")) throw error;
  }
  return Buffer.concat(chunks).toString();
}

async function foundInside(files: Files, path: string): Promise<FoundFile | undefined> {
  let at = path;
  for (let links = 0; links < mostLinks; links++) {
    const info = await files.stat(at, { follow: false }).catch((error) => {
      if (isSandkeepError(error, "not-found") || isSandkeepError(error, "invalid")) return undefined;
      throw error;
    });
    if (info?.type === "file" || info?.type === "directory")
      return { path: at, isDirectory: info.type === "directory" };
    if (info?.type !== "symlink" || !info.target) return undefined;
    // The sandbox resolves ".." itself: the directory may be behind another link.
    at = info.target.startsWith("/") ? info.target : `${at.slice(0, at.lastIndexOf("/"))}/${info.target}`;
  }
  return undefined;
}
