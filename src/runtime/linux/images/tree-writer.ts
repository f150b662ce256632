/**
 * Writes our own files into a directory of the host that only root can reach, as LayerWriter does into a layer of the
 * store. No process is in between: the kernel copies thousands of files in the time that sending them would take.
 */

import { chmod, copyFile, lchown, link, rm, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeFolder } from "../../../base/files/folders.ts";
import { type EntryOptions, isProgram, type Owner } from "./layer-writer.ts";

const root: Owner = { uid: 0, gid: 0 };

export class TreeWriter {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async directory(path: string, { mode = 0o755, owner = root }: EntryOptions = {}): Promise<void> {
    await makeFolder(this.#at(path));
    await this.#own(path, { mode, owner });
  }

  async file(
    path: string,
    content: string | Uint8Array,
    { mode = 0o644, owner = root }: EntryOptions = {},
  ): Promise<void> {
    await this.#remove(path);
    await writeFile(this.#at(path), content);
    await this.#own(path, { mode, owner });
  }

  async symlink(target: string, path: string): Promise<void> {
    await makeFolder(dirname(this.#at(path)));
    await this.#remove(path);
    await symlink(target, this.#at(path));
  }

  /**
   * A hard link where its owner and mode are right: a program of 120 MB is then on the disk and in memory once, and
   * thousands of small files are there at once.
   */
  async copyFile(from: string, to: string, { mode, owner = root }: EntryOptions = {}): Promise<void> {
    const wanted = { mode: mode ?? (isProgram(from) ? 0o755 : 0o644), owner };
    if ((await isAs(from, wanted)) && (await hasLinked(from, this.#at(to)))) return;
    await this.#remove(to);
    await copyFile(from, this.#at(to));
    await this.#own(to, wanted);
  }

  /** before it is written: what is there may be a hard link to a file of our package */
  async #remove(path: string): Promise<void> {
    await rm(this.#at(path), { force: true });
  }

  async #own(path: string, { mode, owner }: Required<EntryOptions>): Promise<void> {
    await lchown(this.#at(path), owner.uid, owner.gid);
    await chmod(this.#at(path), mode);
  }

  #at(path: string): string {
    return join(this.#folder, path);
  }
}

async function isAs(path: string, { mode, owner }: Required<EntryOptions>): Promise<boolean> {
  const found = await stat(path);
  return found.uid === owner.uid && found.gid === owner.gid && (found.mode & 0o7777) === mode;
}

/** false if it is on another file system, or the path exists */
async function hasLinked(from: string, to: string): Promise<boolean> {
  return link(from, to).then(
    () => true,
    () => false,
  );
}
