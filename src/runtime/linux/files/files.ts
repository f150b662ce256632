/**
 * A sandbox's file system as the core sees it: each operation on a connection of its own, done inside the sandbox by a
 * process of the given user.
 */

import { posix } from "node:path";
import { pipeline, Readable } from "node:stream";
import { createGzip } from "node:zlib";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { FileChange, FileInfo, Files } from "../../../core/ports/runtime.ts";
import { infoOf } from "./file-entry.ts";
import type { FileSession } from "./file-session.ts";
import { archiveTar } from "./tar.ts";
import { extractTar } from "./tar-extract.ts";
import type { FileOwner } from "./tar-member.ts";

/** makes a connection: of the user whose files these are, or of root in the same sandbox */
export type OpenSession = (as: "user" | "root") => Promise<FileSession>;

/** the operations of `Files` over connections of their own; `explained` puts a failure into words for callers */
export function filesOver(open: OpenSession, explained: (error: unknown) => unknown = (error) => error): Files {
  async function once<T>(use: (session: FileSession) => Promise<T>, as: "user" | "root" = "user"): Promise<T> {
    const session = await open(as);
    try {
      return await use(session);
    } catch (error) {
      throw explained(error);
    } finally {
      session.close();
    }
  }
  /** a connection that lives as long as somebody reads what it yields */
  async function* during<T>(use: (session: FileSession) => AsyncIterable<T>): AsyncGenerator<T> {
    const session = await open("user");
    try {
      yield* use(session);
    } catch (error) {
      throw explained(error);
    } finally {
      session.close();
    }
  }

  return {
    read: (path, options) => bytes(during((session) => session.read(path, options))),
    write: (path, data, options) => once((session) => session.write(path, data, options)),
    stat: (path, options) => once(async (session) => infoOf(await session.stat(path, options), posix.normalize(path))),
    list: (path) => once((session) => list(session, path)),
    mkdir: (path, options) => once(async (session) => void (await session.mkdir(path, options))),
    move: (from, to) => once((session) => session.move(from, to)),
    remove: (path, options) => once((session) => session.remove(path, options)),
    chmod: (path, mode) => once((session) => session.chmod(path, mode)),
    chown: (path, uid, gid) => once((session) => session.chown(path, uid, gid)),
    symlink: (target, path) => once((session) => session.symlink(target, path)),
    watch: async (path, options) => watch(await open("user"), path, options),
    async extract(directory, tar, options) {
      if (!options?.anywhere) return once((session) => extractTar(session, directory, tar));
      const owner = await once(whoIs);
      return once((session) => extractTar(session, directory, tar, { owner }), "root");
    },
    archive(path, options) {
      const tar = bytes(during((session) => archiveTar(session, path)));
      if (!options?.gzip) return tar;
      // pipeline() ends each side when the other ends, with its error; the reader of the result hears of it.
      return pipeline(tar, createGzip(), () => undefined);
    },
  };
}

/** the user that a connection is of, as the kernel of the sandbox knows it: the owner of the process that serves it */
async function whoIs(session: FileSession): Promise<FileOwner> {
  const { uid, gid } = await session.stat("/proc/self");
  return { uid, gid };
}

/** what one list() may bring into memory, in bytes on the wire: about a million files */
const longestList = 128 << 20;

function bytes(source: AsyncIterable<Uint8Array>): Readable {
  return Readable.from(source, { objectMode: false, highWaterMark: 128 << 10 });
}

async function list(session: FileSession, path: string): Promise<FileInfo[]> {
  const files: FileInfo[] = [];
  let length = 0;
  for await (const entry of session.list(path)) {
    length += entry.path.length + entry.target.length + 100;
    if (length > longestList) throw new SandkeepError("limit", `Cannot list "${path}": it holds too many files`);
    files.push(infoOf(entry, posix.join(path, entry.path)));
  }
  return files;
}

async function watch(
  session: FileSession,
  path: string,
  options: { recursive?: boolean; signal?: AbortSignal } = {},
): Promise<AsyncIterable<FileChange>> {
  const { signal } = options;
  const close = () => session.close();
  signal?.addEventListener("abort", close);
  try {
    signal?.throwIfAborted();
    return untilAborted(session, await session.watch(path, options), signal, close);
  } catch (error) {
    signal?.removeEventListener("abort", close);
    session.close();
    throw error;
  }
}

/** the changes, up to the abort, which is an end and no error */
async function* untilAborted(
  session: FileSession,
  changes: AsyncIterable<FileChange>,
  signal: AbortSignal | undefined,
  close: () => void,
): AsyncGenerator<FileChange> {
  try {
    yield* changes;
  } catch (error) {
    if (!signal?.aborted) throw error;
  } finally {
    signal?.removeEventListener("abort", close);
    session.close();
  }
}
