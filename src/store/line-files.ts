/**
 * Files of lines in a directory (core/ports/line-files.ts). A file that is full becomes `<name>.1.jsonl`, in place of
 * the one before it, so a name has at most twice the bytes of a full file.
 */

import { appendFileSync, closeSync, fstatSync, mkdirSync, openSync, readSync, renameSync } from "node:fs";
import { appendFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { codeOf } from "../base/error-code.ts";
import type { LineFiles } from "../core/ports/line-files.ts";

interface LineFile {
  path: string;
  older: string;
  size: number;
  /** whether a crash has left a part of a line at its end */
  isTorn: boolean;
}

const mode = 0o600;

export class DirectoryLineFiles implements LineFiles {
  readonly #directory: string;
  /** when a file is full, in bytes */
  readonly #mostBytes: number;
  /** files that were written to */
  readonly #files = new Map<string, LineFile>();
  #isMade = false;

  constructor(directory: string, mostBytes = 1 << 20) {
    this.#directory = directory;
    this.#mostBytes = mostBytes;
  }

  read(name: string, bytes = Number.POSITIVE_INFINITY): string[] {
    const { path, older } = this.#paths(name);
    const newer = endOf(path, bytes);
    const before =
      newer && newer.content.length >= bytes ? undefined : endOf(older, bytes - (newer?.content.length ?? 0));
    const parts = [before, newer].filter((part) => part !== undefined);
    const lines = Buffer.concat(parts.map(({ content }) => content))
      .toString("utf8")
      .split("\n");
    // What follows the last line break is not whole, nor is the first line of a part.
    lines.pop();
    return parts[0]?.isCut ? lines.slice(1) : lines;
  }

  async append(name: string, text: string): Promise<void> {
    const file = this.#file(name);
    const { added, isFull } = this.#prepared(file, text);
    if (isFull) await rename(file.path, file.older);
    await appendFile(file.path, added, { mode });
    this.#grown(file, added, isFull);
  }

  appendNow(name: string, text: string): void {
    const file = this.#file(name);
    const { added, isFull } = this.#prepared(file, text);
    if (isFull) renameSync(file.path, file.older);
    appendFileSync(file.path, added, { mode });
    this.#grown(file, added, isFull);
  }

  async replace(name: string, text: string): Promise<void> {
    this.#make();
    const { path, older } = this.#paths(name);
    const fresh = join(this.#directory, `${name}.new`);
    await writeFile(fresh, text, { mode });
    await rename(fresh, path);
    await rm(older, { force: true });
    this.#files.delete(name);
  }

  async delete(name: string): Promise<void> {
    const { path, older } = this.#paths(name);
    this.#files.delete(name);
    await Promise.all([rm(path, { force: true }), rm(older, { force: true })]);
  }

  #paths(name: string): Pick<LineFile, "path" | "older"> {
    if (!/^[\w-]{1,128}$/.test(name)) throw new Error(`"${name}" cannot name a file`);
    return { path: join(this.#directory, `${name}.jsonl`), older: join(this.#directory, `${name}.1.jsonl`) };
  }

  #file(name: string): LineFile {
    const known = this.#files.get(name);
    if (known) return known;
    this.#make();
    const paths = this.#paths(name);
    const end = endOf(paths.path, 1);
    const isTorn = end !== undefined && end.content.length > 0 && end.content[0] !== 0x0a;
    const file = { ...paths, size: end?.size ?? 0, isTorn };
    this.#files.set(name, file);
    return file;
  }

  #make(): void {
    if (!this.#isMade) mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    this.#isMade = true;
  }

  #prepared({ size, isTorn }: LineFile, text: string): { added: string; isFull: boolean } {
    return { added: isTorn ? `\n${text}` : text, isFull: size > 0 && size + text.length > this.#mostBytes };
  }

  #grown(file: LineFile, added: string, isNew: boolean): void {
    file.size = (isNew ? 0 : file.size) + Buffer.byteLength(added);
    file.isTorn = false;
  }
}

/** the last bytes of a file */
function endOf(path: string, bytes: number): { content: Buffer; size: number; isCut: boolean } | undefined {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
  try {
    const { size } = fstatSync(file);
    const content = Buffer.alloc(Math.max(0, Math.min(size, bytes)));
    const read = readSync(file, content, 0, content.length, size - content.length);
    return { content: content.subarray(0, read), size, isCut: content.length < size };
  } finally {
    closeSync(file);
  }
}
