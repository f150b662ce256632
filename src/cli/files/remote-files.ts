/** The files of a sandbox's session, as commands copy them; refusals become sentences about the copy. */

import { posix } from "node:path";
import { ApiError } from "../../client/client.ts";
import type { Daemon } from "../client/daemon.ts";
import { CliError } from "../errors.ts";

export class RemoteFiles {
  readonly #daemon: Daemon;
  readonly #session: { id: string; cwd: string };
  readonly #what: string;
  readonly #user: { user?: string };

  constructor(
    daemon: Daemon,
    session: { id: string; cwd: string },
    { what, user }: { what: string; user?: string | undefined },
  ) {
    this.#daemon = daemon;
    this.#session = session;
    this.#what = what;
    this.#user = user === undefined ? {} : { user };
  }

  absolute(path: string): string {
    return posix.resolve(this.#session.cwd, path);
  }

  #place(path: string) {
    return { params: { session: this.#session.id }, query: { ...this.#daemon.team, ...this.#user, path } };
  }

  /** what is there; undefined if nothing is */
  async find(path: string) {
    const asked = this.#daemon.client.call("statFile", this.#place(path)).catch((error) => {
      if (error instanceof ApiError && error.code === "not_found") return undefined;
      throw error;
    });
    return this.#daemon.ask(this.#what, asked);
  }

  async unpack(path: string, tar: AsyncIterable<Uint8Array>): Promise<void> {
    // The transport takes any iterable of bytes.
    const bytes = tar as unknown as NonNullable<RequestInit["body"]>;
    await this.#daemon.ask(this.#what, this.#daemon.client.call("writeArchive", { ...this.#place(path), bytes }));
  }

  async write(path: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    const bytes = content as unknown as NonNullable<RequestInit["body"]>;
    await this.#daemon.ask(this.#what, this.#daemon.client.call("writeFile", { ...this.#place(path), bytes }));
  }

  /** the bytes of a tar; an abort ends them with an error */
  async pack(path: string, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const input = { ...this.#place(path), ...(signal && { signal }) };
    const { body } = await this.#daemon.ask(this.#what, this.#daemon.client.send("readArchive", input));
    return this.#whole(body, signal);
  }

  async read(path: string): Promise<AsyncIterable<Uint8Array>> {
    const { body } = await this.#daemon.ask(this.#what, this.#daemon.client.send("readFile", this.#place(path)));
    return this.#whole(body);
  }

  /** the bytes of an answer; the daemon can only break it off once it has begun */
  async *#whole(body: AsyncIterable<Uint8Array> | null, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    try {
      if (body) yield* body;
    } catch (cause) {
      if (signal?.aborted) throw cause;
      throw new CliError(`Cannot ${this.#what}: the daemon broke off`, "the daemon's log says why");
    }
  }
}
