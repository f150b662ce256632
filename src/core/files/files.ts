/** Files of a running session, as its own user sees them; relative paths begin at the session's directory. */

import type { Readable } from "node:stream";
import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Caller } from "../model/sandbox.ts";
import type { FileInfo, Files, WriteOptions } from "../ports/runtime.ts";
import type { Running, Sessions } from "../sessions/sessions.ts";
import { type Found, type SearchSpec, search } from "./search.ts";

export class SessionFiles {
  readonly #context: Pick<Context, "ids" | "events">;
  readonly #sessions: Sessions;

  constructor(context: Pick<Context, "ids" | "events">, sessions: Sessions) {
    this.#context = context;
    this.#sessions = sessions;
  }

  /** fails before the first byte if the file cannot be read */
  async read(caller: Caller, sessionId: string, path: string, cwd?: string): Promise<Readable> {
    return this.#at(caller, sessionId, { path, cwd }, async (files, absolute) => {
      const { type } = await files.stat(absolute);
      if (type !== "file") throw new SandkeepError("invalid", `error reading file: ${absolute}: it is a ${type}`);
      return begun(files.read(absolute));
    });
  }

  /** a part of a file, and the file's info; past the end of the file the data is empty */
  async readPart(
    caller: Caller,
    sessionId: string,
    path: string,
    { offset, length }: { offset: number; length: number },
  ): Promise<{ file: FileInfo; data: Buffer }> {
    return this.#at(caller, sessionId, { path }, async (files, absolute) => {
      const file = await files.stat(absolute);
      if (file.type !== "file") throw new SandkeepError("invalid", `Cannot read "${absolute}": it is a ${file.type}`);
      const parts: Buffer[] = [];
      for await (const part of files.read(absolute, { offset, length })) parts.push(part);
      return { file, data: Buffer.concat(parts) };
    });
  }

  async list(caller: Caller, sessionId: string, path: string): Promise<FileInfo[]> {
    return this.#at(caller, sessionId, { path }, (files, absolute) => files.list(absolute));
  }

  /** by name, by content, or both */
  async search(caller: Caller, sessionId: string, spec: SearchSpec): Promise<Found> {
    return this.#at(caller, sessionId, { path: spec.path }, async (files, path, { session, machine }) => {
      await files.stat(path);
      return search(machine, session.user, this.#context.ids.command(), { ...spec, path });
    });
  }

  /** returns the info of the written file */
  async write(
    caller: Caller,
    sessionId: string,
    path: string,
    data: Uint8Array | AsyncIterable<Uint8Array>,
    options: WriteOptions = {},
  ): Promise<FileInfo> {
    return this.#at(caller, sessionId, { path }, async (files, absolute, running) => {
      await files.write(absolute, data, options);
      this.#written(running, absolute);
      return files.stat(absolute);
    });
  }

  async mkdir(
    caller: Caller,
    sessionId: string,
    path: string,
    { cwd, recursive = false }: { cwd?: string | undefined; recursive?: boolean | undefined } = {},
  ): Promise<void> {
    await this.#at(caller, sessionId, { path, cwd }, async (files, absolute, running) => {
      await files.mkdir(absolute, { recursive });
      this.#written(running, absolute);
    });
  }

  /**
   * unpacks below a directory; the files belong to the session's user. Paths that only root may change are writable if
   * programs inside have sudo, and not otherwise
   */
  async extract(
    caller: Caller,
    sessionId: string,
    directory: string | undefined,
    tar: AsyncIterable<Uint8Array>,
  ): Promise<void> {
    await this.#at(caller, sessionId, { path: directory ?? "." }, async (files, absolute, running) => {
      await files.extract(absolute, tar, { anywhere: running.machine.spec.sudo });
      this.#written(running, absolute);
    });
  }

  async open(caller: Caller, sessionId: string, user?: string): Promise<Files> {
    const { session, machine } = await this.#sessions.running(caller, sessionId);
    return machine.files(user ?? session.user);
  }

  #written({ session }: Running, path: string): void {
    this.#context.events.publish(session.projectId, { type: "files.written", sessionId: session.id, path });
  }

  #at<T>(
    caller: Caller,
    sessionId: string,
    { path, cwd }: { path: string; cwd?: string | undefined },
    work: (files: Files, absolute: string, running: Running) => Promise<T>,
  ): Promise<T> {
    return this.#sessions.use(caller, sessionId, (running) => {
      const { session, machine } = running;
      return work(machine.files(session.user), resolvePath(session.cwd, cwd, path), running);
    });
  }
}

/** resolves like a shell in that directory, never above the root */
export function resolvePath(home: string, cwd: string | undefined, path: string): string {
  const start = path.startsWith("/") ? "" : cwd === undefined ? home : cwd.startsWith("/") ? cwd : `${home}/${cwd}`;
  const parts: string[] = [];
  for (const part of `${start}/${path}`.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** the stream, once its first bytes or its end have arrived; rejects if it cannot be opened */
function begun(stream: Readable): Promise<Readable> {
  return new Promise((resolve, reject) => {
    const ready = () => {
      stream.off("error", failed);
      resolve(stream);
    };
    const failed = (error: Error) => {
      stream.off("readable", ready);
      reject(error);
    };
    stream.once("readable", ready);
    stream.once("error", failed);
  });
}
