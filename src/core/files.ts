/** Files of a running session, as its own user sees them; relative paths begin at the session's directory. */

import type { Readable } from "node:stream";
import { SandkeepError } from "./errors.ts";
import type { Files } from "./runtime.ts";
import type { Caller } from "./sandbox.ts";
import type { Sessions } from "./sessions.ts";

export class SessionFiles {
  readonly #sessions: Sessions;

  constructor(sessions: Sessions) {
    this.#sessions = sessions;
  }

  /** what is wrong with the path is known before the first byte */
  async read(caller: Caller, sessionId: string, path: string, cwd?: string): Promise<Readable> {
    const { session, machine } = await this.#sessions.running(caller, sessionId);
    const files = machine.files(session.user);
    const absolute = resolvePath(session.cwd, cwd, path);
    const { type } = await files.stat(absolute);
    if (type !== "file") throw new SandkeepError("invalid", `error reading file: ${absolute}: it is a ${type}`);
    return files.read(absolute);
  }

  async mkdir(
    caller: Caller,
    sessionId: string,
    path: string,
    options: { cwd?: string | undefined; recursive?: boolean | undefined } = {},
  ): Promise<void> {
    const { session, machine } = await this.#sessions.running(caller, sessionId);
    const absolute = resolvePath(session.cwd, options.cwd, path);
    await machine.files(session.user).mkdir(absolute, { recursive: options.recursive ?? false });
  }

  /** unpacks below a directory; its files belong to the session's user, wherever that is */
  async extract(
    caller: Caller,
    sessionId: string,
    directory: string | undefined,
    tar: AsyncIterable<Uint8Array>,
  ): Promise<void> {
    const { session, machine } = await this.#sessions.running(caller, sessionId);
    await machine.files(session.user).extract(resolvePath(session.cwd, undefined, directory ?? "."), tar);
  }

  async open(caller: Caller, sessionId: string, user?: string): Promise<Files> {
    const { session, machine } = await this.#sessions.running(caller, sessionId);
    return machine.files(user ?? session.user);
  }
}

/** as a shell in that directory would; never above the root */
export function resolvePath(home: string, cwd: string | undefined, path: string): string {
  const start = path.startsWith("/") ? "" : cwd === undefined ? home : cwd.startsWith("/") ? cwd : `${home}/${cwd}`;
  const parts: string[] = [];
  for (const part of `${start}/${path}`.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}
