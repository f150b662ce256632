/**
 * Blobs on their way in: files of the store that are read while they still grow.
 *
 *   <store>/downloads/<digest>.<tag>   one under way, by the process that the tag names
 *   <store>/downloads/<digest>.part    the beginning of one that broke off; whoever wants the blob next goes on with it
 *
 * A connection that breaks is made again from where it was. The whole file is checked against its digest and its size:
 * what does not have them is an error to whoever reads it, at its end, and the file is deleted.
 */

import { createHash, type Hash } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { type FileHandle, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { isSandkeepError, SandkeepError } from "../../../core/model/errors.ts";
import { isTagAlive, processTag } from "../layers/claims.ts";
import { refusal } from "../oci/manifest.ts";
import { makePrivate } from "../storage/json-file.ts";
import type { Repository } from "./client.ts";

export interface BlobWanted {
  /** as 64 hexadecimal digits */
  digest: string;
  size: number;
}

export interface DownloadsOptions {
  /** a folder of the store */
  folder: string;
  /** throws while the disk is short of room */
  requireRoom(): void;
  /** told how many bytes have come in, of all downloads together */
  received(bytes: number): void;
  signal?: AbortSignal | undefined;
  /** ms before the first of several new attempts; each waits twice as long as the one before */
  pause?: number;
}

/** at a time, of one image */
export const mostDownloads = 4;
const mostAttempts = 5;
/** ms for which the beginning of a blob is kept */
const keepFor = 24 * 3_600_000;
const pieceLength = 1 << 20;
const lookEvery = 32 << 20;

/** makes the folder, and deletes what nobody has asked for in a day; what processes that died left is a beginning */
export async function openDownloads(folder: string, now = Date.now()): Promise<void> {
  await makePrivate(folder);
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    const [digest = "", tag = ""] = name.split(".");
    if (tag !== "part" && isTagAlive(tag)) continue;
    const facts = await stat(path).catch(() => undefined);
    if (facts && now - facts.mtimeMs > keepFor) await rm(path, { force: true });
    else if (tag !== "part") await rename(path, join(folder, `${digest}.part`)).catch(() => undefined);
  }
}

/** One blob. `run()` brings it in; `read()` may begin before that, and waits for what is not there yet. */
export class Download {
  readonly #repository: Repository;
  readonly #blob: BlobWanted;
  readonly #options: DownloadsOptions;
  readonly #path: string;
  readonly #changes = new EventEmitter();
  #file: FileHandle | undefined;
  #hash: Hash = createHash("sha256");
  #length = 0;
  #nextLook = lookEvery;
  #state: "coming" | "whole" | { error: unknown } = "coming";

  constructor(repository: Repository, blob: BlobWanted, options: DownloadsOptions) {
    this.#repository = repository;
    this.#blob = blob;
    this.#options = options;
    this.#path = join(options.folder, `${blob.digest}.${processTag()}`);
    this.#changes.setMaxListeners(0);
  }

  /** settles when it is in, checked, or has failed; the error is also thrown to who reads */
  async run(): Promise<void> {
    try {
      this.#file = await this.#begin();
      await this.#fill(this.#file);
      this.#check();
      this.#state = "whole";
    } catch (error) {
      this.#state = { error };
      throw error;
    } finally {
      this.#changes.emit("change");
    }
  }

  /** ends it for whoever reads, because it will not be run */
  abandon(error: unknown): void {
    if (this.#state === "coming") this.#state = { error };
    this.#changes.emit("change");
  }

  async *read(): AsyncGenerator<Uint8Array> {
    for (let at = 0; ; ) {
      if (typeof this.#state === "object") throw this.#state.error;
      if (at >= this.#length && this.#state === "whole") return;
      if (at >= this.#length || !this.#file) {
        await once(this.#changes, "change");
        continue;
      }
      const length = Math.min(pieceLength, this.#length - at);
      const { bytesRead, buffer } = await this.#file.read(Buffer.allocUnsafe(length), 0, length, at);
      // It began anew meanwhile, as its registry wanted.
      if (bytesRead === 0) throw refusal("a layer changed while it was read");
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  }

  /** lets go of the file: what is whole or wrong is deleted, a beginning is kept for the next time */
  async close(): Promise<void> {
    await this.#file?.close();
    const isBeginning = typeof this.#state === "object" && this.#length > 0 && !isWrong(this.#state.error);
    if (isBeginning) await rename(this.#path, join(this.#options.folder, `${this.#blob.digest}.part`)).catch(() => {});
    await rm(this.#path, { force: true });
  }

  /** the file, with what an earlier attempt has left */
  async #begin(): Promise<FileHandle> {
    await rename(join(this.#options.folder, `${this.#blob.digest}.part`), this.#path).catch(() => undefined);
    const file = await open(this.#path, "a+", 0o600);
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(pieceLength), 0, pieceLength, this.#length);
      if (bytesRead === 0) break;
      this.#hash.update(buffer.subarray(0, bytesRead));
      this.#length += bytesRead;
    }
    if (this.#length > this.#blob.size) await this.#restart(file);
    this.#options.received(this.#length);
    return file;
  }

  async #fill(file: FileHandle): Promise<void> {
    const { pause = 500, signal } = this.#options;
    for (let attempt = 1; this.#length < this.#blob.size || attempt === 1; attempt++) {
      if (this.#length === this.#blob.size) return;
      const before = this.#length;
      try {
        await this.#receive(file);
        // A registry that ends early without an error is asked again from there.
        if (this.#length === before)
          throw new SandkeepError("unavailable", "Cannot pull the image: a layer is cut short");
      } catch (error) {
        const isWorthIt = isSandkeepError(error, "unavailable") && attempt < mostAttempts && !signal?.aborted;
        if (!isWorthIt) throw error;
        await setTimeout(pause * 2 ** (attempt - 1), undefined, signal && { signal }).catch(() => undefined);
      }
    }
  }

  async #receive(file: FileHandle): Promise<void> {
    const { from, answer } = await this.#repository.blob(this.#blob.digest, this.#length);
    try {
      if (from !== this.#length) await this.#restart(file);
      for await (const chunk of answer.body) {
        if (this.#length + chunk.length > this.#blob.size) throw this.#wrongSize();
        await file.appendFile(chunk);
        this.#hash.update(chunk);
        this.#length += chunk.length;
        this.#options.received(chunk.length);
        this.#changes.emit("change");
        this.#look();
      }
    } finally {
      answer.discard();
    }
  }

  async #restart(file: FileHandle): Promise<void> {
    await file.truncate(0);
    this.#options.received(-this.#length);
    this.#hash = createHash("sha256");
    this.#length = 0;
  }

  #look(): void {
    if (this.#length < this.#nextLook) return;
    this.#nextLook = this.#length + lookEvery;
    this.#options.requireRoom();
  }

  #check(): void {
    if (this.#length !== this.#blob.size) throw this.#wrongSize();
    if (this.#hash.digest("hex") !== this.#blob.digest) {
      throw refusal(`layer "sha256:${this.#blob.digest}" is not what its digest says`);
    }
  }

  #wrongSize(): SandkeepError {
    return refusal(
      `layer "sha256:${this.#blob.digest}" does not have the ${this.#blob.size} bytes that its manifest says`,
    );
  }
}

/** whether the bytes themselves are bad */
function isWrong(error: unknown): boolean {
  return isSandkeepError(error, "invalid") || isSandkeepError(error, "limit");
}
