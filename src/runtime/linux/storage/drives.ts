/** Drives on disk: <store>/drives/<id>, each a volume with its own limit, mounted into machines. */

import { existsSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { makeFolderSync } from "../../../base/files/folders.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { DriveVolumes } from "../../../core/ports/runtime.ts";
import { isPlainName } from "../machines/plan.ts";
import type { Volumes } from "./volumes.ts";

/** the sandbox's plain user, who owns the files of a new drive */
const plainUser = 1000;
/** ends the name of a drive's volume once the drive is deleted; no id has a dot */
const deleted = ".deleted";

export class DriveStore implements DriveVolumes {
  readonly #folder: string;
  readonly #volumes: Volumes;
  readonly #logError: (error: unknown) => void;

  readonly #requireRoom: (what: string) => void;
  readonly #sync: (volume: string) => Promise<void>;

  constructor(
    store: string,
    volumes: Volumes,
    logError: (error: unknown) => void,
    requireRoom: (what: string) => void = () => undefined,
    sync: (volume: string) => Promise<void> = async () => undefined,
  ) {
    this.#sync = sync;
    this.#logError = logError;
    this.#requireRoom = requireRoom;
    this.#folder = join(store, "drives");
    this.#volumes = volumes;
  }

  /** also deletes the rest of drives whose deletion was interrupted */
  async open(): Promise<void> {
    makeFolderSync(this.#folder, 0o700);
    for (const name of readdirSync(this.#folder)) if (name.endsWith(deleted)) await this.#remove(name);
  }

  async create(id: string, options: { maxSize: number }): Promise<void> {
    const volume = this.volume(id);
    this.#requireRoom("create a drive");
    await this.#volumes.create(volume, plainUser);
    await this.#volumes.limit(volume, options.maxSize);
  }

  async copy(from: string, id: string, options: { maxSize: number }): Promise<void> {
    const volume = this.volume(id);
    await this.#volumes.copy(this.volume(from), volume);
    await this.#volumes.limit(volume, options.maxSize);
  }

  async resize(id: string, options: { maxSize: number }): Promise<void> {
    await this.#volumes.limit(this.volume(id), options.maxSize);
  }

  async sync(id: string): Promise<void> {
    await this.#sync(this.volume(id));
  }

  /**
   * The drive is gone as soon as this is called. Files that a sandbox left in it may prevent the deletion of its
   * volume; the next start tries again.
   */
  async delete(id: string): Promise<void> {
    const volume = this.volume(id);
    if (!existsSync(volume)) return;
    renameSync(volume, `${volume}${deleted}`);
    await this.#remove(`${id}${deleted}`);
  }

  async list(): Promise<string[]> {
    return readdirSync(this.#folder).filter((name) => !name.endsWith(deleted));
  }

  async #remove(name: string): Promise<void> {
    await this.#volumes.delete(join(this.#folder, name)).catch(this.#logError);
  }

  /** the path of a drive's volume */
  volume(id: string): string {
    if (!isPlainName(id)) throw new SandkeepError("invalid", `Cannot use drive "${id}": that is no id`);
    return join(this.#folder, id);
  }
}
