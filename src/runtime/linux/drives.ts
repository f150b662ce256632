/** Drives on disk: <store>/drives/<id>, each a volume with its own limit, mounted into machines. */

import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { SandkeepError } from "../../core/errors.ts";
import type { DriveVolumes } from "../../core/runtime.ts";
import { isPlainName } from "./plan.ts";
import type { Volumes } from "./volumes.ts";

/** the sandbox's plain user owns what is in a fresh drive */
const plainUser = 1000;

export class DriveStore implements DriveVolumes {
  readonly #folder: string;
  readonly #volumes: Volumes;

  constructor(store: string, volumes: Volumes) {
    this.#folder = join(store, "drives");
    this.#volumes = volumes;
  }

  open(): void {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
  }

  async create(id: string, options: { maxSize: number }): Promise<void> {
    const volume = this.volume(id);
    await this.#volumes.create(volume, plainUser);
    await this.#volumes.limit(volume, options.maxSize);
  }

  async resize(id: string, options: { maxSize: number }): Promise<void> {
    await this.#volumes.limit(this.volume(id), options.maxSize);
  }

  async delete(id: string): Promise<void> {
    await this.#volumes.delete(this.volume(id));
  }

  async list(): Promise<string[]> {
    return readdirSync(this.#folder);
  }

  /** where a drive is */
  volume(id: string): string {
    if (!isPlainName(id)) throw new SandkeepError("invalid", `Cannot use drive "${id}": that is no id`);
    return join(this.#folder, id);
  }
}
