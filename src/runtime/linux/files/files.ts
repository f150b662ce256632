/**
 * A sandbox's file system as the core's `Files`: each operation has its own connection to a process inside the sandbox,
 * which runs as the given user, unless its caller asks for several with one.
 */

import { posix } from "node:path";
import { pipeline, Readable } from "node:stream";
import { createGzip } from "node:zlib";
import { eachBounded } from "../../../base/concurrency/each-bounded.ts";
import { isSandkeepError, SandkeepError } from "../../../core/model/errors.ts";
import type { FileInfo, FileOwner, Files, ListOptions, WriteOptions } from "../../../core/ports/runtime.ts";
import { infoOf } from "./file-entry.ts";
import type { FileSession } from "./file-session.ts";
import { watch } from "./file-watch.ts";
import { archiveTar } from "./tar.ts";
import { extractTar } from "./tar-extract.ts";

/** opens a connection: as the user of these files, or as root in the same sandbox */
export type OpenSession = (as: "user" | "root") => Promise<FileSession>;

interface FilesOptions {
  /** rewords errors for callers */
  explained?: (error: unknown) => unknown;
  /** the machine, which all its watches share turns with; by default these files alone do */
  machine?: object;
}

/** the operations of `Files`, each over its own connection */
export function filesOver(open: OpenSession, options: FilesOptions = {}): Files {
  const { explained = (error) => error, machine = open } = options;
  const lend: Lend = async (as) => {
    const session = await open(as);
    return { session, release: () => session.close() };
  };
  return operations(lend, explained, machine);
}

/** gives an operation its connection, and what it calls at the end */
type Lend = (as: "user" | "root") => Promise<{ session: FileSession; release: () => void }>;

function operations(lend: Lend, explained: (error: unknown) => unknown, machine: object): Files {
  async function once<T>(use: (session: FileSession) => Promise<T>, as: "user" | "root" = "user"): Promise<T> {
    const { session, release } = await lend(as);
    try {
      return await use(session);
    } catch (error) {
      throw explained(error);
    } finally {
      release();
    }
  }
  /** a connection that stays open while its consumer reads */
  async function* during<T>(use: (session: FileSession) => AsyncIterable<T>): AsyncGenerator<T> {
    const { session, release } = await lend("user");
    try {
      yield* use(session);
    } catch (error) {
      throw explained(error);
    } finally {
      release();
    }
  }

  return {
    read: (path, options) => bytes(during((session) => session.read(path, options))),
    async opened(path) {
      const { file, contents } = await once((session) => infoAndContents(session, path));
      if (!contents) return { file, bytes: (range) => this.read(path, range) };
      const part = ({ offset, length } = { offset: 0, length: contents.length }) =>
        contents.subarray(offset, offset + length);
      return { file, bytes: (range) => Readable.from([part(range)], { objectMode: false }) };
    },
    write: (path, data, options) => once((session) => write(session, path, data, options)),
    stat: (path, options) => once((session) => stat(session, path, options)),
    list: (path, options) => once((session) => list(session, path, options)),
    mkdir: (path, options) => once((session) => mkdir(session, path, options)),
    move: (from, to, options) => once((session) => move(session, from, to, options)),
    remove: (path, options) => once((session) => session.remove(path, options)),
    chmod: (path, mode) => once((session) => session.chmod(path, mode)),
    chown: (path, uid, gid) => once((session) => session.chown(path, uid, gid)),
    watch: async (path, options) => watch((await lend("user")).session, machine, path, options),
    async extract(directory, tar, options) {
      const { owner: whose, mode, as, attributes = false } = options ?? {};
      if (whose !== undefined) {
        const owners = whose === "archived" ? { archivedOwners: true } : { owner: whose };
        const facts = { ...owners, attributes, ...(mode !== undefined && { mode }), ...(as !== undefined && { as }) };
        return once((session) => extractTar(session, directory, tar, facts), "root");
      }
      if (!options?.anywhere) return once((session) => extractTar(session, directory, tar));
      const owner = await once(whoIs);
      return once((session) => extractTar(session, directory, tar, { owner }), "root");
    },
    async together(use) {
      const { session, release } = await lend("user");
      const kept: Lend = async (as) => (as === "user" ? { session, release: () => undefined } : lend(as));
      try {
        return await use(operations(kept, explained, machine));
      } finally {
        release();
      }
    },
    archive(path, options) {
      const { attributes = false, skipsMounts = false } = options ?? {};
      const tar = bytes(during((session) => archiveTar(session, path, { attributes, skipsMounts })));
      if (!options?.gzip) return tar;
      // pipeline() ends each side with the other's error, and the reader of the result gets it.
      return pipeline(tar, createGzip(), () => undefined);
    },
  };
}

/** the user of a connection by the sandbox's kernel: the owner of the process that serves it */
async function whoIs(session: FileSession): Promise<FileOwner> {
  const { uid, gid } = await session.stat("/proc/self");
  return { uid, gid };
}

/** most bytes on the wire that one list() may load into memory, which takes twice as much: about 130,000 files */
const longestList = 16 << 20;

function bytes(source: AsyncIterable<Uint8Array>): Readable {
  return Readable.from(source, { objectMode: false, highWaterMark: 128 << 10 });
}

async function stat(
  session: FileSession,
  path: string,
  { links = false, attributes = false, ...options }: { follow?: boolean; links?: boolean; attributes?: boolean } = {},
): Promise<FileInfo> {
  const file = infoOf(await session.stat(path, options), posix.normalize(path));
  if (attributes && file.type === "file") return { ...file, attributes: await attributesOf(session, path) };
  return links ? withTarget(session, file) : file;
}

/** most bytes of a file that is read with its info, because a second connection would take longer */
const smallFile = 64 << 10;

/** the contents are there if it is a small regular file; files of the kernel have the size 0, and still contents */
async function infoAndContents(session: FileSession, path: string): Promise<{ file: FileInfo; contents?: Buffer }> {
  const file = await stat(session, path);
  if (file.type !== "file" || file.size === 0 || file.size > smallFile) return { file };
  const parts: Buffer[] = [];
  for await (const part of session.read(path, { offset: 0, length: file.size })) parts.push(part);
  const contents = Buffer.concat(parts);
  // It may have been cut since.
  return contents.length === file.size ? { file, contents } : { file };
}

/** of a regular file; nothing if it has become something else meanwhile */
async function attributesOf(session: FileSession, path: string): Promise<Record<string, string>> {
  for await (const { entry } of session.walk(path, { attributes: true })) {
    if (entry.type !== "file") return {};
    return Object.fromEntries(entry.attributes.map(({ name, value }) => [name, value.toString()]));
  }
  return {};
}

/** a symlink with a missing target, or one that the user may not see, has no target type */
async function withTarget(session: FileSession, file: FileInfo): Promise<FileInfo> {
  if (file.type !== "symlink") return file;
  const target = await session.stat(file.path).catch((error) => {
    if (!isSandkeepError(error) || !skipped.has(error.code)) throw error;
  });
  return target ? { ...file, targetType: infoOf(target, file.path).type } : file;
}

async function list(
  session: FileSession,
  path: string,
  { depth = 1, links = false, most, attributes }: ListOptions = {},
): Promise<FileInfo[]> {
  const files: FileInfo[] = [];
  let left = most ?? Number.POSITIVE_INFINITY;
  let length = 0;
  await below(path, depth);
  return files;

  async function addAttributes(found: FileInfo[], prefix: string): Promise<void> {
    await eachBounded(askedAtOnce, found.entries(), async ([at, file]) => {
      if (file.type !== "file") return;
      const all = await attributesOf(session, file.path).catch((error) => {
        // A file that is gone, closed to the user, or has more attributes than an answer holds, is listed without.
        if (!isSandkeepError(error) || !skipped.has(error.code)) throw error;
        return {};
      });
      const wanted = Object.entries(all).filter(([name]) => name.startsWith(prefix));
      length += wanted.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
      if (length > longestList) throw tooMany("too many");
      if (wanted.length > 0) found[at] = { ...file, attributes: Object.fromEntries(wanted) };
    });
  }

  function tooMany(bound: string): SandkeepError {
    return new SandkeepError("limit", `Cannot list "${path}": it holds ${bound} files`);
  }

  async function below(directory: string, levels: number): Promise<void> {
    const found: FileInfo[] = [];
    for await (const entry of session.list(directory)) {
      length += directory.length + entry.path.length + entry.target.length + 100;
      if (--left < 0 || length > longestList) {
        throw tooMany(left < 0 ? `more than ${most}` : "too many");
      }
      found.push(infoOf(entry, posix.join(directory, entry.path)));
    }
    if (links) for (const [at, file] of found.entries()) found[at] = await withTarget(session, file);
    if (attributes !== undefined) await addAttributes(found, attributes);
    for (const file of found.sort((one, other) => (one.name < other.name ? -1 : 1))) {
      files.push(file);
      if (file.type !== "directory" || levels <= 1) continue;
      // A directory that is gone by now, or closed to the user, counts as empty.
      await below(file.path, levels - 1).catch((error) => {
        if (!isSandkeepError(error) || !skipped.has(error.code)) throw error;
      });
    }
  }
}

/** files whose attributes are asked for at the same time */
const askedAtOnce = 32;

/** errors for which a directory below the listed one, or a symlink's target, is skipped */
const skipped: ReadonlySet<string> = new Set(["not-found", "forbidden", "invalid"]);

async function mkdir(
  session: FileSession,
  path: string,
  { owner, ...options }: { recursive?: boolean; mode?: number; owner?: FileOwner } = {},
): Promise<void> {
  if (owner && options.recursive) await makeParents(session, path, owner);
  const isMade = await session.mkdir(path, options);
  if (owner && isMade) await session.chown(path, owner.uid, owner.gid, { follow: false });
}

async function write(
  session: FileSession,
  path: string,
  data: Uint8Array | AsyncIterable<Uint8Array>,
  options: WriteOptions = {},
): Promise<void> {
  if (options.owner && options.parents) await makeParents(session, path, options.owner);
  const { attributes, ...plain } = options;
  if (!attributes) return session.write(path, data, plain);
  const { prefix, values } = attributes;
  const there = await stat(session, path, { follow: false, attributes: true }).catch((error) => {
    if (!isSandkeepError(error) || !skipped.has(error.code)) throw error;
  });
  // A new file has no attributes.
  const isOld = Object.keys(there?.attributes ?? {}).some((name) => name.startsWith(prefix));
  await session.write(path, data, { ...plain, replace: plain.replace ?? isOld });
  for (const [name, value] of Object.entries(values)) {
    await session.setAttribute(path, `${prefix}${name}`, Buffer.from(value));
  }
}

async function move(
  session: FileSession,
  from: string,
  to: string,
  { parents = false, owner }: { parents?: boolean; owner?: FileOwner } = {},
): Promise<void> {
  // A missing source makes no directories.
  if (parents) await session.stat(from, { follow: false });
  if (parents) await makeParents(session, to, owner);
  await session.move(from, to);
}

/** makes the missing directories above a path, from the top; they belong to the owner */
async function makeParents(session: FileSession, path: string, owner?: FileOwner): Promise<void> {
  const missing: string[] = [];
  for (let above = posix.dirname(path); above !== "/"; above = posix.dirname(above)) {
    const isThere = await session.stat(above).catch((error) => {
      if (!isSandkeepError(error, "not-found")) throw error;
    });
    if (isThere) break;
    missing.unshift(above);
  }
  for (const directory of missing) {
    const isMade = await session.mkdir(directory, { recursive: true });
    if (owner && isMade) await session.chown(directory, owner.uid, owner.gid, { follow: false });
  }
}
