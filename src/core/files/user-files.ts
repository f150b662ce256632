/**
 * Files of a running session for callers who name a user. The user decides where relative paths begin and who owns new
 * files. As in SessionFiles.extract(), paths that only root may change are in reach if programs inside have sudo, and
 * not otherwise.
 */

import type { Readable } from "node:stream";
import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Caller } from "../model/sandbox.ts";
import type { FileChange, FileInfo, FileOwner, Files, WriteOptions } from "../ports/runtime.ts";
import type { Running, Sessions } from "../sessions/sessions.ts";
import { type Account, type Accounts, accountOf, accountsOf } from "./accounts.ts";
import { resolvePath } from "./files.ts";

/** A path in a request, and its user. */
export interface Place {
  /** absolute, or relative to the user's home (`~`); empty for the directory where commands start */
  path: string;
  /** a name of the sandbox's /etc/passwd; default the session's user */
  user?: string | undefined;
}

/** A file with the names of its owner and group. */
export interface UserFile extends FileInfo {
  owner: string;
  group: string;
  /** absolute target of a symlink */
  pointsTo?: string;
}

export interface Range {
  offset: number;
  length: number;
}

export class UserFiles {
  readonly #context: Pick<Context, "events" | "now">;
  readonly #sessions: Sessions;

  constructor(context: Pick<Context, "events" | "now">, sessions: Sessions) {
    this.#context = context;
    this.#sessions = sessions;
  }

  /** the user of this name, or the session's own */
  async account(caller: Caller, sessionId: string, user?: string): Promise<Account> {
    const { session, machine } = await this.#sessions.running(caller, sessionId);
    return accountOf(machine, user ?? session.user, this.#context.now());
  }

  /** the absolute path of a place */
  async absolute(caller: Caller, sessionId: string, place: Place): Promise<string> {
    return this.#at(caller, sessionId, place, async ({ path }) => path);
  }

  async stat(caller: Caller, sessionId: string, place: Place): Promise<UserFile> {
    return this.#at(caller, sessionId, place, (at) => fileAt(at, at.path));
  }

  /** `limit` where there are more than `most` */
  async list(
    caller: Caller,
    sessionId: string,
    place: Place,
    options: { depth: number; most: number; attributes?: string },
  ): Promise<UserFile[]> {
    return this.#at(caller, sessionId, place, async (at) => {
      const files = await at.files.list(at.path, { ...options, links: true });
      return files.map((file) => describe(at, file));
    });
  }

  /** makes parent directories too; throws `exists` if the directory exists, `invalid` if the path is something else */
  async makeDirectory(caller: Caller, sessionId: string, place: Place): Promise<UserFile> {
    return this.#at(caller, sessionId, place, async (at) => {
      const there = await at.files.stat(at.path).catch(unlessMissing);
      if (there?.type === "directory") {
        throw new SandkeepError("exists", `Cannot make the directory "${at.path}": it exists already`);
      }
      if (there) throw new SandkeepError("invalid", `Cannot make the directory "${at.path}": it is a ${there.type}`);
      await at.files.mkdir(at.path, { recursive: true, ...at.ownership });
      this.#written(at);
      return fileAt(at, at.path);
    });
  }

  async move(caller: Caller, sessionId: string, from: Place, to: string): Promise<UserFile> {
    return this.#at(caller, sessionId, from, async (at) => {
      const destination = at.resolve(to);
      await at.files.move(at.path, destination, { parents: true, ...at.ownership });
      this.#written(at, destination);
      return fileAt(at, destination);
    });
  }

  /** removes recursively; succeeds if nothing is there */
  async remove(caller: Caller, sessionId: string, place: Place): Promise<void> {
    await this.#at(caller, sessionId, place, async (at) => {
      await at.files.remove(at.path, { recursive: true, force: true });
      this.#written(at);
    });
  }

  /** a file's info, and a function that reads its bytes */
  async read(
    caller: Caller,
    sessionId: string,
    place: Place,
  ): Promise<{ file: FileInfo; bytes: (range?: Range) => Readable }> {
    return this.#at(caller, sessionId, place, async ({ files, path }) => {
      const { file, bytes } = await files.opened(path);
      if (file.type !== "file") throw new SandkeepError("invalid", `Cannot read "${path}": it is a ${file.type}`);
      return { file, bytes };
    });
  }

  /** replaces an existing file; makes parent directories */
  async write(
    caller: Caller,
    sessionId: string,
    place: Place,
    data: Uint8Array | AsyncIterable<Uint8Array>,
    options: Pick<WriteOptions, "attributes"> = {},
  ): Promise<string> {
    return this.#at(caller, sessionId, place, async (at) => {
      await at.files.write(at.path, data, { parents: true, ...options, ...at.ownership });
      this.#written(at);
      return at.path;
    });
  }

  /** a tar archive of a file or directory; names inside are relative to it */
  async archive(caller: Caller, sessionId: string, place: Place, options: { gzip?: boolean } = {}): Promise<Readable> {
    return this.#at(caller, sessionId, place, async ({ files, path }) => {
      await files.stat(path);
      return files.archive(path, options);
    });
  }

  /** unpacks a tar archive below a directory; what is unpacked belongs to the user */
  async extract(caller: Caller, sessionId: string, place: Place, tar: AsyncIterable<Uint8Array>): Promise<void> {
    await this.#at(caller, sessionId, place, async (at) => {
      await at.files.extract(at.path, tar, at.ownership);
      this.#written(at);
    });
  }

  /** joins several files into one and removes them */
  async join(caller: Caller, sessionId: string, sources: string[], place: Place): Promise<UserFile> {
    return this.#at(caller, sessionId, place, async (at) => {
      const paths = sources.map((source) => at.resolve(source));
      for (const path of paths) {
        const { type } = await at.files.stat(path);
        if (type !== "file") throw new SandkeepError("invalid", `Cannot read "${path}": it is a ${type}`);
      }
      await at.files.write(at.path, concatenated(at.files, paths), { parents: true, ...at.ownership });
      for (const path of paths) if (path !== at.path) await at.files.remove(path, { force: true });
      this.#written(at);
      return fileAt(at, at.path);
    });
  }

  /** changes below a directory from now on, with paths relative to it */
  async watch(
    caller: Caller,
    sessionId: string,
    place: Place,
    { recursive, signal }: { recursive: boolean; signal: AbortSignal },
  ): Promise<{ changes: AsyncIterable<FileChange>; root: string; stat: (path: string) => Promise<UserFile> }> {
    return this.#at(caller, sessionId, place, async (at) => {
      const { type } = await at.files.stat(at.path);
      if (type !== "directory") throw new SandkeepError("invalid", `Cannot watch "${at.path}": it is a ${type}`);
      const changes = await at.files.watch(at.path, { recursive, signal });
      return { changes, root: at.path, stat: (path) => fileAt(at, path) };
    });
  }

  #written({ running: { session }, path }: At, where = path): void {
    this.#context.events.publish(session.projectId, { type: "files.written", sessionId: session.id, path: where });
  }

  #at<T>(caller: Caller, sessionId: string, { path, user }: Place, work: (at: At) => Promise<T>): Promise<T> {
    return this.#sessions.use(caller, sessionId, async (running) => {
      const { session, machine } = running;
      const now = this.#context.now();
      const account = await accountOf(machine, user ?? session.user, now);
      const resolve = (given: string) => inHome(account.home, session.cwd, given);
      const { uid, gid } = account;
      const isAnywhere = machine.spec.sudo;
      return work({
        running,
        account,
        accounts: await accountsOf(machine, now),
        files: machine.files(isAnywhere ? "root" : account.name),
        ownership: isAnywhere ? { owner: { uid, gid } } : {},
        path: resolve(path),
        resolve,
      });
    });
  }
}

/** A resolved place. */
interface At {
  running: Running;
  account: Account;
  accounts: Accounts;
  files: Files;
  ownership: { owner?: FileOwner };
  path: string;
  resolve: (path: string) => string;
}

/** resolves like the user's shell, except that an empty path is the directory where commands start */
export function inHome(home: string, cwd: string, path: string): string {
  if (path === "") return cwd;
  return resolvePath(home, undefined, path === "~" ? "." : path.startsWith("~/") ? path.slice(2) : path);
}

async function fileAt(at: At, path: string): Promise<UserFile> {
  return describe(at, await at.files.stat(path, { follow: false, links: true, attributes: true }));
}

function describe({ accounts, account, running: { session } }: At, file: FileInfo): UserFile {
  const names = [account.name, session.user];
  const owner = accounts.userName(file.uid, names);
  const described = { ...file, owner, group: accounts.groupName(file.gid, names) };
  if (file.target === undefined) return described;
  return { ...described, pointsTo: resolvePath(`${file.path}/..`, undefined, file.target) };
}

async function* concatenated(files: Files, paths: string[]): AsyncGenerator<Uint8Array> {
  for (const path of paths) yield* files.read(path);
}

/** undefined if the path leads nowhere */
function unlessMissing(error: unknown): undefined {
  if (error instanceof SandkeepError && ["not-found", "invalid", "forbidden"].includes(error.code)) return undefined;
  throw error;
}
