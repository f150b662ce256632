/** <store>/trash: unused volumes and directories, being deleted in the background. */

import { readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { isSandkeepError } from "../../../core/model/errors.ts";
import { processTag } from "../layers/claims.ts";
import type { LayerTools } from "../layers/layers.ts";
import { isMissing, makePrivate } from "./json-file.ts";

export class Trash {
  readonly #folder: string;
  readonly #tools: Pick<LayerTools, "deleteVolume" | "filesAt">;
  #emptying: Promise<void> = Promise.resolve();

  constructor(folder: string, tools: Pick<LayerTools, "deleteVolume" | "filesAt">) {
    this.#folder = folder;
    this.#tools = tools;
  }

  async open(): Promise<void> {
    await makePrivate(this.#folder);
  }

  /** a new path, for callers that move something here and may want it back */
  newPath(): string {
    return join(this.#folder, processTag());
  }

  /** no error if the path is gone already */
  async discard(path: string): Promise<void> {
    await rename(path, this.newPath()).catch((error) => {
      if (!isMissing(error)) throw error;
    });
    this.empty();
  }

  empty(): void {
    // What cannot be deleted now stays in the trash; the next discard tries again.
    this.#emptying = this.#emptying.then(() => this.#deleteAll()).catch(() => undefined);
  }

  /** resolves when everything in it is deleted */
  settled(): Promise<void> {
    return this.#emptying;
  }

  async #deleteAll(): Promise<void> {
    for (const name of await readdir(this.#folder)) {
      try {
        await this.#tools.deleteVolume(join(this.#folder, name));
      } catch (error) {
        if (!isSandkeepError(error, "unsupported") && !isSandkeepError(error, "invalid")) throw error;
        await this.#deleteDirectory(name);
      }
    }
  }

  /** by the guest, which can delete trees deeper than any path */
  async #deleteDirectory(name: string): Promise<void> {
    const files = await this.#tools.filesAt(this.#folder);
    try {
      await files.remove(`/${name}`, { recursive: true, force: true });
    } finally {
      files.close();
    }
  }
}
