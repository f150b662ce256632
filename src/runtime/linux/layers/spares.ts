/**
 * Copies of layers, made before a machine needs them: a copy takes as long as the file system needs to write what is
 * new in it, a rename takes nothing.
 *
 *   <store>/spares/<layer>/<tag>/   a copy; on btrfs a subvolume. Each layer has a folder of its own, because the kernel
 *                                   makes copies in one folder one after the other
 */

import { existsSync, renameSync } from "node:fs";
import { mkdir, readdir, rmdir } from "node:fs/promises";
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

/** how long to wait before a copy is made for nobody yet, in ms */
const quiet = 20;

export class Spares {
  readonly #options: SparesOptions;
  /** paths of those that are there, by layer */
  readonly #ready = new Map<string, string[]>();
  readonly #restocking = new Map<string, Restocking>();
  #closed = false;

  constructor(options: SparesOptions) {
    this.#options = options;
  }

  /** finds those that an earlier daemon left; those of layers that are gone are deleted */
  async open(isThere: (layer: string) => boolean): Promise<void> {
    const { folder } = this.#options;
    await makePrivate(folder);
    for (const layer of await readdir(folder)) {
      const paths = (await readdir(join(folder, layer))).map((name) => join(folder, layer, name));
      this.#ready.set(layer, paths);
      if (!isThere(layer)) await this.drop(layer);
    }
  }

  /** lets no more be made, and resolves when none is */
  async close(): Promise<void> {
    this.#closed = true;
    for (const { timer } of this.#restocking.values()) clearTimeout(timer);
    await Promise.all([...this.#restocking.values()].map(({ made }) => made));
    this.#restocking.clear();
  }

  /** makes a copy in a moment, when whoever needed one has it, unless there is one by then */
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
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, processTag());
    await this.#options.copy(volume, path);
    this.#ready.set(layer, [...(this.#ready.get(layer) ?? []), path]);
  }

  /** deletes the copies of a layer */
  async drop(layer: string): Promise<void> {
    const paths = this.#ready.get(layer) ?? [];
    this.#ready.delete(layer);
    for (const path of paths) await this.#options.discard(path);
    // One that is just being made keeps its folder, and is found at the next start.
    await rmdir(join(this.#options.folder, layer)).catch(() => undefined);
  }

  async #restockNow(layer: string, volume: string): Promise<void> {
    if ((this.#ready.get(layer)?.length ?? 0) > 0) return;
    // Without it the next machine waits a little longer.
    await this.add(layer, volume).catch(() => undefined);
    // Of a store that has failed nothing can be deleted; it is found at the next start.
    if (!existsSync(volume)) await this.drop(layer).catch(() => undefined);
  }
}
