/**
 * Tar files that clients sent before the builds that use them. Their contents are checked when a build opens them.
 *
 *   <folder>/<key>           a whole tar, which was touched when a build last used it
 *   <folder>/<key>.<tag>     a tar that is being received; an abandoned one is deleted by prune()
 */

import { createReadStream } from "node:fs";
import { open, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { SandkeepError } from "../../../core/model/errors.ts";
import { processTag } from "../layers/claims.ts";
import { isMissing, makePrivate, syncDirectory } from "../storage/json-file.ts";

export interface UploadsOptions {
  folder: string;
  /** most bytes of one upload */
  largest: number;
  /** throws while the disk is short of room */
  requireRoom: () => void;
}

export class Uploads {
  readonly #options: UploadsOptions;

  constructor(options: UploadsOptions) {
    this.#options = options;
  }

  async keep(key: string, tar: AsyncIterable<Uint8Array>): Promise<void> {
    const { folder, largest, requireRoom } = this.#options;
    await makePrivate(folder);
    const part = join(folder, `${key}.${processTag()}`);
    const file = await open(part, "wx", 0o600);
    try {
      let length = 0;
      for await (const chunk of tar) {
        length += chunk.length;
        if (length > largest) {
          throw new SandkeepError("limit", `Cannot take the files of a build: they are larger than ${largest} bytes`);
        }
        requireRoom();
        await file.appendFile(chunk);
      }
      await file.sync();
      await file.close();
      await rename(part, join(folder, key));
    } catch (error) {
      await file.close().catch(() => undefined);
      await rm(part, { force: true });
      throw error;
    }
    await syncDirectory(folder);
  }

  async has(key: string): Promise<boolean> {
    return stat(join(this.#options.folder, key)).then(
      () => true,
      (error) => {
        if (isMissing(error)) return false;
        throw error;
      },
    );
  }

  async open(key: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    if (!(await this.has(key))) return undefined;
    const path = join(this.#options.folder, key);
    const now = new Date();
    await utimes(path, now, now);
    return createReadStream(path);
  }

  /** deletes what no build has used since then; how many went */
  async prune(before: number): Promise<number> {
    const { folder } = this.#options;
    const names = await readdir(folder).catch((error) => {
      if (isMissing(error)) return [];
      throw error;
    });
    let count = 0;
    for (const name of names) {
      const path = join(folder, name);
      const used = await stat(path).catch(() => undefined);
      if (!used || used.mtimeMs >= before) continue;
      await rm(path, { force: true });
      count++;
    }
    return count;
  }
}
