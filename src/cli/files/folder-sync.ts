/**
 * A folder of this host that is copied into a sandbox, and whose changes are brought back. Programs in the sandbox chose
 * what comes back, so it is unpacked elsewhere first and then compared: only what differs is written, never through a
 * symlink, and every `.git` stays as it is here, since its hooks and settings name programs that git runs. What was
 * changed here meanwhile stays, too.
 */

import { randomBytes } from "node:crypto";
import type { Stats } from "node:fs";
import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readlink,
  rename,
  rm,
  rmdir,
  symlink,
  unlink,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { codeOf } from "../../base/error-code.ts";
import { byteString, bytesOf, shownText } from "../../base/tar/byte-string.ts";
import { TarWriter } from "../../base/tar/writer.ts";
import type { CommandContext } from "../command.ts";
import { metered } from "../print/meter.ts";
import { LeftOut } from "./left-out.ts";
import { packDirectory } from "./pack.ts";
import type { RemoteFiles } from "./remote-files.ts";
import { requireRoom, writeSparse } from "./sparse-file.ts";
import { unpack } from "./unpack.ts";

export interface Folder {
  /** path on this host */
  local: string;
  /** path in the sandbox */
  remote: string;
}

/** what is below a directory, by path; byte strings, parents before their children */
type Tree = Map<string, Stats>;

/** what a folder contained when it was copied in */
export interface Copied {
  tree: Tree;
  /** ms since 1970 */
  at: number;
}

export interface Changes {
  written: number;
  removed: number;
  /** paths that could not take their new form, as a directory there has other files */
  skipped: string[];
  /** paths that were changed on both sides, and are as they were changed here */
  kept: string[];
}

/** copies a folder into the sandbox; returns what it contained */
export async function copyIn({ local, remote }: Folder, files: RemoteFiles, context: CommandContext): Promise<Copied> {
  const at = context.now();
  const tree = await treeOf(byteString(local));
  const of = [...tree.values()].reduce((sum, facts) => sum + (facts.isFile() ? facts.size : 0), 0);
  const tar = new TarWriter();
  const leftOut = new LeftOut();
  const bytes = async function* () {
    yield* packDirectory(tar, { directory: byteString(local), leftOut: leftOut.add });
    yield* tar.end();
  };
  await files.unpack(remote, metered(bytes(), { what: `Copying ${basename(local)}`, of }, context));
  leftOut.tell(context.warn);
  return { tree, at };
}

/** brings the changes of a folder back; `before` is what was copied in. An abort ends it between two files, with an error */
export async function bringBack(
  { local, remote }: Folder,
  before: Copied,
  files: Pick<RemoteFiles, "pack">,
  signal?: AbortSignal,
): Promise<Changes> {
  const staging = await mkdtemp(join(tmpdir(), "sandkeep-sync-"));
  try {
    await unpack(await files.pack(remote, signal), staging);
    return await applyChanges(staging, local, before, signal);
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/** makes a directory like another one, except for files that have been changed or added since `before` */
export async function applyChanges(from: string, to: string, before: Copied, signal?: AbortSignal): Promise<Changes> {
  const [source, target] = [byteString(from), byteString(to)];
  const wanted = await treeOf(source);
  signal?.throwIfAborted();
  const changes: Changes = { written: 0, removed: 0, skipped: [], kept: [] };
  const own = (path: string) => path.split("/").includes(".git");
  const gone = [...before.tree].filter(([path]) => !wanted.has(path) && !own(path));
  for (const [path, then] of gone.reverse()) {
    const now = await factsOf(join(target, path));
    if (now && isChanged(now, then)) changes.kept.push(shownText(path));
    else if (await removed(join(target, path))) changes.removed++;
  }
  let skipped = "";
  for (const [path, facts] of wanted) {
    signal?.throwIfAborted();
    if (own(path) || (skipped !== "" && path.startsWith(`${skipped}/`))) continue;
    const place = join(target, path);
    if (await isSame(join(source, path), facts, place)) continue;
    const [now, then] = [await factsOf(place), before.tree.get(path)];
    if (isChanged(now, then)) {
      if (then && isAsCopied(facts, then, before.at)) continue;
      // What was only deleted here comes back with its changes.
      if (now) {
        skipped = path;
        changes.kept.push(shownText(path));
        continue;
      }
    }
    if (await replaced(join(source, path), facts, place)) changes.written++;
    else {
      skipped = path;
      changes.skipped.push(shownText(path));
    }
  }
  return changes;
}

/** whether something here is not what was copied in; of a directory only that it is one counts */
function isChanged(now: Stats | undefined, then: Stats | undefined): boolean {
  if (!now || !then) return now !== then;
  if (now.isDirectory() && then.isDirectory()) return false;
  return now.mode !== then.mode || now.size !== then.size || now.mtimeMs !== then.mtimeMs;
}

/**
 * Whether a file of the sandbox is surely still the one that was copied in. Its copy has whole seconds, so one that was
 * changed here in the second of the copy may have been changed there in the same one.
 */
function isAsCopied(copy: Stats, { mode, size, mtimeMs }: Stats, at: number): boolean {
  const second = (time: number) => Math.floor(time / 1000);
  const isSameTime = second(copy.mtimeMs) === second(mtimeMs) && second(mtimeMs) < second(at);
  return isSameTime && copy.isFile() && copy.size === size && copy.mode === (mode & ~0o7000);
}

export async function treeOf(directory: string, below = "", tree: Tree = new Map()): Promise<Tree> {
  for (const name of (await readdir(bytesOf(join(directory, below)), "latin1")).sort()) {
    const path = below === "" ? name : `${below}/${name}`;
    const facts = await lstat(bytesOf(join(directory, path)));
    if (!facts.isDirectory() && !facts.isFile() && !facts.isSymbolicLink()) continue;
    tree.set(path, facts);
    if (facts.isDirectory()) await treeOf(directory, path, tree);
  }
  return tree;
}

async function isSame(source: string, facts: Stats, place: string): Promise<boolean> {
  const there = await factsOf(place);
  if (!there) return false;
  if (facts.isDirectory()) return there.isDirectory();
  if (facts.isSymbolicLink())
    return (
      there.isSymbolicLink() &&
      (await readlink(bytesOf(source), "latin1")) === (await readlink(bytesOf(place), "latin1"))
    );
  if (!there.isFile() || there.size !== facts.size || (there.mode & 0o777) !== (facts.mode & 0o777)) return false;
  return hasSameContent(source, place);
}

/** whether two files of the same size are equal; either may be larger than memory */
async function hasSameContent(one: string, other: string): Promise<boolean> {
  await using mine = await open(bytesOf(one));
  await using theirs = await open(bytesOf(other));
  const [a, b] = [Buffer.alloc(pieceLength), Buffer.alloc(pieceLength)];
  for (let at = 0; ; ) {
    const { bytesRead } = await mine.read(a, 0, a.length, at);
    if (bytesRead === 0) return true;
    const read = await theirs.read(b, 0, bytesRead, at);
    // A short read says that it has become shorter.
    if (read.bytesRead < bytesRead || a.compare(b, 0, bytesRead, 0, bytesRead) !== 0) return false;
    at += bytesRead;
  }
}

/** bytes that are compared at once */
const pieceLength = 256 << 10;

/** false if a directory with other files is in the way */
async function replaced(source: string, facts: Stats, place: string): Promise<boolean> {
  const there = await factsOf(place);
  if (there?.isDirectory() && !(await removed(place))) return false;
  if (facts.isDirectory()) {
    if (there && !there.isDirectory()) await unlink(bytesOf(place));
    await mkdir(bytesOf(place));
    await chmod(bytesOf(place), (facts.mode & 0o777) | 0o700);
    return true;
  }
  // A draft beside it takes its place at once, also that of a symlink.
  const draft = bytesOf(`${place}.${randomBytes(6).toString("hex")}`);
  try {
    if (facts.isSymbolicLink()) await symlink(await readlink(bytesOf(source), "buffer"), draft);
    else {
      await requireRoom(dirname(place), { name: place, size: facts.size });
      await using from = await open(bytesOf(source));
      await using to = await open(draft, "wx", 0o600);
      await writeSparse(to, from.createReadStream({ autoClose: false }));
      await to.chmod(facts.mode & 0o777);
    }
    await rename(draft, bytesOf(place));
  } finally {
    await rm(draft, { force: true });
  }
  return true;
}

/** removes a file, or a directory that is empty */
async function removed(place: string): Promise<boolean> {
  const there = await factsOf(place);
  if (!there) return false;
  try {
    await (there.isDirectory() ? rmdir(bytesOf(place)) : unlink(bytesOf(place)));
    return true;
  } catch (error) {
    if (codeOf(error) === "ENOTEMPTY" || codeOf(error) === "EEXIST") return false;
    throw error;
  }
}

/** undefined if nothing is there */
function factsOf(place: string): Promise<Stats | undefined> {
  return lstat(bytesOf(place)).catch((error) => {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  });
}
