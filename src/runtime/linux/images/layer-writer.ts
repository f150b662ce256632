/** Writes our own files into a layer that is being built. Everything belongs to root by default. */

import { createReadStream } from "node:fs";
import { posix } from "node:path";
import type { FileSession } from "../files/file-session.ts";

export interface Owner {
  uid: number;
  gid: number;
}

export interface EntryOptions {
  mode?: number;
  owner?: Owner;
}

/** the plain user of a sandbox */
export const plainUser: Owner = { uid: 1000, gid: 1000 };

export class LayerWriter {
  readonly #files: FileSession;

  constructor(files: FileSession) {
    this.#files = files;
  }

  /** makes a directory and its missing parents; an existing directory gets this mode and owner */
  async directory(path: string, options: EntryOptions = {}): Promise<void> {
    const { mode = 0o755, owner } = options;
    await this.#files.mkdir(path, { recursive: true, mode });
    if (owner) await this.#files.chown(path, owner.uid, owner.gid);
    await this.#files.chmod(path, mode);
  }

  async file(
    path: string,
    content: string | Uint8Array | AsyncIterable<Uint8Array>,
    options: EntryOptions = {},
  ): Promise<void> {
    const { mode = 0o644, owner = { uid: 0, gid: 0 } } = options;
    const data = typeof content === "string" ? Buffer.from(content) : content;
    await this.#files.write(path, data, { mode, owner, parents: true, replace: true, exactMode: true });
  }

  async symlink(target: string, path: string): Promise<void> {
    await this.#files.mkdir(posix.dirname(path), { recursive: true });
    await this.#files.remove(path, { force: true });
    await this.#files.symlink(target, path);
  }

  /** deletes the layer's own entry at this path */
  async remove(path: string): Promise<void> {
    await this.#files.remove(path, { recursive: true, force: true });
  }

  /** hides any entry of the layers below at this path */
  async whiteout(path: string, options: { parents?: boolean } = {}): Promise<void> {
    if (options.parents) await this.#files.mkdir(posix.dirname(path), { recursive: true });
    await this.#files.whiteout(path);
  }

  /** hides the content of this directory in the layers below */
  async opaque(path: string): Promise<void> {
    await this.#files.setAttribute(path, "trusted.overlay.opaque", Buffer.from("y"));
  }

  /** makes a directory show the content of another path in the layers below, seen from their root */
  async redirect(path: string, to: string): Promise<void> {
    await this.#files.setAttribute(path, "trusted.overlay.redirect", Buffer.from(to));
  }

  async copyFile(from: string, to: string, options: EntryOptions = {}): Promise<void> {
    const input = createReadStream(from);
    const mode = options.mode ?? (isProgram(from) ? 0o755 : 0o644);
    await this.file(to, input, { ...options, mode });
  }
}

/** whether a file of ours may be run; the rest of its mode does not matter */
export function isProgram(path: string): boolean {
  return path.includes("/bin/") || path.endsWith(".sh");
}
