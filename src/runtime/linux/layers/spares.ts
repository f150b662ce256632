/**
 * Copies of layers, made before a machine needs them: a copy takes as long as the file system needs to write its
 * metadata, a rename takes no time.
 *
 *   <store>/spares/<layer>/<tag>/   a copy; on btrfs a subvolume. Each layer has a folder of its own, because the kernel
 *                                   makes copies in one folder one after the other
 */

import { existsSync, renameSync } from "node:fs";
import { readdir, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { isMissing, makePrivate } from "../storage/json-file.ts";
import { processTag } from "./claims.ts";

export interface SparesOptions {
  folder: string;
  /** makes a writable copy of a volume */
  copy: (from: string, to: string) => Promise<void>;
  /** deletes a volume, in the background */
  discard: (volume: string) => Promise<void>;
}

interface Restocking {
  timer: NodeJS.Timeout;
  made?: Promise<void>;
}

/** pause before a copy is made in advance, in ms */
const quiet = 20;

export class Spares {
  readonly #options: SparesOptions;
  /** paths of the finished copies, by layer */
  readonly #ready = new Map<string, string[]>();
  readonly #restocking = new Map<string, Restocking>();
  /** layers whose folders exist, as far as is known */
  readonly #folders = new Set<string>();
  #closed = false;

  constructor(options: SparesOptions) {
    this.#options = options;
  }

  /** finds the copies that an earlier daemon left, and deletes those of layers that are gone */
  async open(isThere: (layer: string) => boolean): Promise<void> {
    const { folder } = this.#options;
    await makePrivate(folder);
    for (const layer of await readdir(folder)) {
      const paths = (await readdir(join(folder, layer))).map((name) => join(folder, layer, name));
      this.#ready.set(layer, paths);
      if (!isThere(layer)) await this.drop(layer);
    }
  }

  /** starts no more copies, and resolves when none is being made */
  async close(): Promise<void> {
    this.#closed = true;
    for (const { timer } of this.#restocking.values()) clearTimeout(timer);
    await Promise.all([...this.#restocking.values()].map(({ made }) => made));
    this.#restocking.clear();
  }

  /** makes a copy soon, after the current caller has its own, unless there is one by then */
  restock(layer: string, volume: string): void {
    if (this.#closed || this.#restocking.has(layer)) return;
    const entry: Restocking = {
      timer: setTimeout(() => {
        entry.made = this.#restockNow(layer, volume).finally(() => this.#restocking.delete(layer));
      }, quiet),
    };
    entry.timer.unref();
    this.#restocking.set(layer, entry);
  }

  /** moves a copy of the layer to a path; false when there is none */
  take(layer: string, to: string): boolean {
    const path = this.#ready.get(layer)?.pop();
    if (path === undefined) return false;
    try {
      renameSync(path, to);
      return true;
    } catch (error) {
      // Another process may have deleted the layer, and its copies with it.
      if (isMissing(error)) return false;
      throw error;
    }
  }

  /** makes a copy of a layer's volume; on btrfs it and the volume are on the disk when this resolves */
  async add(layer: string, volume: string): Promise<void> {
    const folder = join(this.#options.folder, layer);
    const path = join(folder, processTag());
    if (!this.#folders.has(layer)) await makePrivate(folder);
    this.#folders.add(layer);
    try {
      await this.#options.copy(volume, path);
    } catch (error) {
      // Another process may have deleted the folder.
      this.#folders.delete(layer);
      throw error;
    }
    this.#ready.set(layer, [...(this.#ready.get(layer) ?? []), path]);
  }

  /** deletes the copies of a layer */
  async drop(layer: string): Promise<void> {
    const paths = this.#ready.get(layer) ?? [];
    this.#ready.delete(layer);
    this.#folders.delete(layer);
    for (const path of paths) await this.#options.discard(path);
    // A copy that is just being made keeps its folder; the next start finds it.
    await rmdir(join(this.#options.folder, layer)).catch(() => undefined);
  }

  async #restockNow(layer: string, volume: string): Promise<void> {
    if ((this.#ready.get(layer)?.length ?? 0) > 0) return;
    // If this fails, the next machine waits a little longer.
    await this.add(layer, volume).catch(() => undefined);
    // Nothing can be deleted in a failed store; the next start finds it.
    if (!existsSync(volume)) await this.drop(layer).catch(() => undefined);
  }
}
