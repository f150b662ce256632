/**
 * <data>/shared/<id>: layers on the host's own file system, beside the store.
 *
 * A machine's volume is a copy of its image's base. The copy shares the data on the disk, but the kernel caches pages
 * by inode: each machine reads a file of the base into memory for itself. For small files that does not matter. For
 * Node's program of 120 MB it made the first `node` of every sandbox three times as slow. The layers here are mounted
 * below the volumes of all machines, as the host's /usr is, so their pages are in memory once.
 */

import { existsSync, statfsSync } from "node:fs";
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makePrivate, syncDirectory } from "../storage/json-file.ts";
import { fileSystemOf } from "../storage/storage.ts";
import { isTagAlive, processTag } from "./claims.ts";
import type { LayerTools } from "./layers.ts";

export class SharedLayers {
  readonly #folder: string;
  readonly #tools: Pick<LayerTools, "sync">;

  constructor(folder: string, tools: Pick<LayerTools, "sync">) {
    this.#folder = folder;
    this.#tools = tools;
  }

  /** deletes folders that belong to no layer of the store, and the unfinished ones of dead processes */
  async open(isLayer: (id: string) => boolean): Promise<void> {
    await makePrivate(this.#folder);
    for (const name of await readdir(this.#folder)) {
      if (!isLayer(name) && !isTagAlive(name)) await this.remove(name);
    }
  }

  path(id: string): string {
    return join(this.#folder, id);
  }

  /**
   * the directory of this id, filled by `build` if missing; on the disk when this resolves, only for root until then
   */
  async make(id: string, build: (folder: string) => Promise<void>): Promise<void> {
    const path = this.path(id);
    if (existsSync(path)) return;
    const draft = join(this.#folder, processTag());
    try {
      await mkdir(draft, { mode: 0o755 });
      await build(draft);
      await this.#tools.sync(draft);
      await rename(draft, path).catch((error) => {
        if (!existsSync(path)) throw error; // otherwise another process made it meanwhile
      });
      await syncDirectory(this.#folder);
    } finally {
      await rm(draft, { recursive: true, force: true });
    }
  }

  async remove(id: string): Promise<void> {
    await rm(this.path(id), { recursive: true, force: true });
  }
}

/** file systems whose files can be mounted with other owners, as every layer is: ext4, XFS, btrfs and F2FS */
const mappable = new Set([0xef53, 0x58465342, 0x9123683e, 0xf2f52010]);

/** whether machines of the store can have directories of `folder` below their volumes */
export function canShareFrom(folder: string, store: string): boolean {
  const parent = dirname(folder);
  return mappable.has(statfsSync(parent).type) && fileSystemOf(parent) !== fileSystemOf(store);
}
