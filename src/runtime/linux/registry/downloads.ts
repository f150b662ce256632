/**
 * Blobs that are being downloaded: files of the store that are read while they still grow.
 *
 *   <store>/downloads/<digest>-<registry>.<tag>   one under way, by the process that the tag names
 *   <store>/downloads/<digest>-<registry>.part    the beginning of one that broke off; the next pull of the blob from the
 *                                                 same registry, of which this is a hash, goes on with it
 *
 * A download whose connection breaks continues from the same byte. The whole file is checked against its digest and size.
 * If they differ, the reader gets an error at the end, and the file is deleted. A download that continues an earlier one is
 * read only after this check. If the check fails, it starts again from the first byte.
 */

import { createHash, type Hash } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { type FileHandle, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { isSandkeepError, SandkeepError } from "../../../core/model/errors.ts";
import { isTagAlive, processTag } from "../layers/claims.ts";
import type { LayerFile } from "../oci/content.ts";
import { refusal } from "../oci/refusal.ts";
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
  /** where it comes from: a beginning that another registry sent is not used */
  registry: string;
  /** throws while the disk is short of room */
  requireRoom(): void;
  /** called with the number of bytes received by all downloads together */
  received(bytes: number): void;
  signal?: AbortSignal | undefined;
  /** ms before the first retry; each retry waits twice as long as the one before */
  pause?: number;
}

/** most parallel downloads for one image */
export const mostDownloads = 4;
const mostAttempts = 5;
/** how long the beginning of a blob is kept, in ms */
const keepFor = 24 * 3_600_000;
const pieceLength = 1 << 20;
/** bytes to receive before they are written */
const writeLength = 256 << 10;

/** makes the folder, and deletes files not used for a day; leftovers of dead processes become beginnings */
export async function openDownloads(folder: string, now = Date.now()): Promise<void> {
  await makePrivate(folder);
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    const [blob = "", tag = ""] = name.split(".");
    if (isUnderWay(name)) continue;
    const facts = await stat(path).catch(() => undefined);
    if (facts && now - facts.mtimeMs > keepFor) await rm(path, { force: true });
    else if (tag !== "part") await rename(path, join(folder, `${blob}.part`)).catch(() => undefined);
  }
}

/** deletes all that no process is bringing in */
export async function pruneDownloads(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names) if (!isUnderWay(name)) await rm(join(folder, name), { force: true });
}

function isUnderWay(name: string): boolean {
  const [, tag = ""] = name.split(".");
  return tag !== "part" && isTagAlive(tag);
}

/** One blob. `run()` brings it in; `read()` may begin before that, and waits for what is not there yet. */
export class Download {
  readonly #repository: Repository;
  readonly #blob: BlobWanted;
  readonly #options: DownloadsOptions;
  readonly #path: string;
  /** where a beginning is kept */
  readonly #part: string;
  readonly #changes = new EventEmitter();
  #file: FileHandle | undefined;
  #hash: Hash = createHash("sha256");
  #length = 0;
  /** whether it began with what an earlier pull left, which is not believed until the whole is checked */
  #isResumed = false;
  #state: "coming" | "whole" | { error: unknown } = "coming";

  constructor(repository: Repository, blob: BlobWanted, options: DownloadsOptions) {
    this.#repository = repository;
    this.#blob = blob;
    this.#options = options;
    const registry = createHash("sha256").update(options.registry).digest("hex").slice(0, 16);
    this.#path = join(options.folder, `${blob.digest}-${registry}.${processTag()}`);
    this.#part = join(options.folder, `${blob.digest}-${registry}.part`);
    this.#changes.setMaxListeners(0);
  }

  /** settles when the blob is complete and checked, or has failed; readers get the error too */
  async run(): Promise<void> {
    try {
      this.#file = await this.#begin();
      this.#changes.emit("change");
      await this.#fill(this.#file);
      if (this.#isResumed && !this.#isRight()) {
        await this.#restart(this.#file);
        await this.#fill(this.#file);
      }
      this.#check();
      this.#state = "whole";
    } catch (error) {
      this.#state = { error };
      throw error;
    } finally {
      this.#changes.emit("change");
    }
  }

  /** ends it for its readers, because it will not run */
  abandon(error: unknown): void {
    if (this.#state === "coming") this.#state = { error };
    this.#changes.emit("change");
  }

  async *read(): AsyncGenerator<Uint8Array> {
    for (let at = 0; ; ) {
      if (typeof this.#state === "object") throw this.#state.error;
      if (at >= this.#length && this.#state === "whole") return;
      if (at >= this.#length || !this.#file || (this.#isResumed && this.#state === "coming")) {
        await once(this.#changes, "change");
        continue;
      }
      const length = Math.min(pieceLength, this.#length - at);
      const { bytesRead, buffer } = await this.#file.read(Buffer.allocUnsafe(length), 0, length, at);
      // The registry started over meanwhile.
      if (bytesRead === 0) throw refusal("a layer changed while it was read");
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  }

  /** the file for another thread, once it is open */
  async file(): Promise<LayerFile> {
    while (!this.#file && this.#state === "coming") await once(this.#changes, "change");
    if (typeof this.#state === "object") throw this.#state.error;
    if (!this.#file) throw new SandkeepError("internal", "Cannot read the layer: its file is closed");
    return { fd: this.#file.fd, start: 0, growth: (signal) => this.#growth(signal) };
  }

  async *#growth(signal: AbortSignal): AsyncGenerator<{ length: number; isWhole: boolean }> {
    for (let told = -1; !signal.aborted; ) {
      if (typeof this.#state === "object") throw this.#state.error;
      const isWhole = this.#state === "whole";
      const isReadable = isWhole || !this.#isResumed;
      if (isReadable && (isWhole || this.#length > told)) {
        told = this.#length;
        yield { length: told, isWhole };
        if (isWhole) return;
      } else await once(this.#changes, "change", { signal }).catch(() => undefined);
    }
  }

  /** deletes the file of a blob that was read, before anything writes it to the disk; waits until it is checked */
  async drop(): Promise<void> {
    while (this.#state === "coming") await once(this.#changes, "change");
    if (typeof this.#state === "object") throw this.#state.error;
    await this.close();
    this.#file = undefined;
  }

  /** closes the file: deletes a complete or bad one, and keeps a beginning for the next time */
  async close(): Promise<void> {
    await this.#file?.close();
    const isBeginning = typeof this.#state === "object" && this.#length > 0 && !isWrong(this.#state.error);
    if (isBeginning) await rename(this.#path, this.#part).catch(() => {});
    await rm(this.#path, { force: true });
  }

  /** the file, with the bytes of an earlier attempt */
  async #begin(): Promise<FileHandle> {
    await rename(this.#part, this.#path).catch(() => undefined);
    const file = await open(this.#path, "a+", 0o600);
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(pieceLength), 0, pieceLength, this.#length);
      if (bytesRead === 0) break;
      this.#hash.update(buffer.subarray(0, bytesRead));
      this.#length += bytesRead;
    }
    if (this.#length > this.#blob.size) await this.#restart(file);
    this.#isResumed = this.#length > 0;
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
        // If a registry ends early without an error, the download continues from there.
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
      let chunks: Buffer[] = [];
      let length = 0;
      const keep = async () => {
        const received = chunks;
        [chunks, length] = [[], 0];
        await this.#append(file, received);
      };
      try {
        for await (const chunk of answer.body) {
          length += chunk.length;
          if (this.#length + length > this.#blob.size) throw this.#wrongSize();
          chunks.push(chunk);
          if (length >= writeLength) await keep();
        }
      } finally {
        // What came before a connection broke need not come again.
        await keep();
      }
    } finally {
      answer.discard();
    }
  }

  /** without a copy of the chunks: garbage of this size is what a pull would cost most */
  async #append(file: FileHandle, chunks: Buffer[]): Promise<void> {
    if (chunks.length === 0) return;
    this.#options.requireRoom();
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
    const { bytesWritten } = await file.writev(chunks);
    // The kernel may take less, as where the disk is nearly full.
    if (bytesWritten < length) await file.appendFile(Buffer.concat(chunks).subarray(bytesWritten));
    for (const chunk of chunks) this.#hash.update(chunk);
    this.#length += length;
    this.#options.received(length);
    this.#changes.emit("change");
  }

  async #restart(file: FileHandle): Promise<void> {
    await file.truncate(0);
    this.#options.received(-this.#length);
    this.#hash = createHash("sha256");
    this.#length = 0;
    this.#isResumed = false;
  }

  #check(): void {
    if (this.#length !== this.#blob.size) throw this.#wrongSize();
    if (!this.#isRight()) throw refusal(`layer "sha256:${this.#blob.digest}" is not what its digest says`);
  }

  #isRight(): boolean {
    return this.#hash.copy().digest("hex") === this.#blob.digest;
  }

  #wrongSize(): SandkeepError {
    return refusal(
      `layer "sha256:${this.#blob.digest}" does not have the ${this.#blob.size} bytes that its manifest says`,
    );
  }
}

/** whether the content itself is bad */
function isWrong(error: unknown): boolean {
  return isSandkeepError(error, "invalid") || isSandkeepError(error, "limit");
}
