/** Packs the files of a directory for a build, without those that its ignore file excludes. */

import { createReadStream } from "node:fs";
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { type Ignored, ignoredBy } from "../../base/path-patterns.ts";
import { byteString, bytesOf, shownText } from "../../base/tar/byte-string.ts";
import { TarWriter } from "../../base/tar/writer.ts";
import { CliError } from "../errors.ts";

export interface ContextOptions {
  directory: string;
  /** path of the Dockerfile below the directory, if it is there */
  file?: string | undefined;
  /** further files to send, by name */
  extra?: Record<string, string>;
}

/** a tar; reads files only as fast as it is sent */
export async function* packContext({ directory, file, extra = {} }: ContextOptions): AsyncGenerator<Buffer> {
  const ignored = await ignoredFor(directory, file);
  const always = new Set([file, ".dockerignore", `${file}.dockerignore`]);
  const tar = new TarWriter();
  for (const [name, content] of Object.entries(extra)) {
    yield* tar.small({ name: byteString(name), mode: 0o600 }, Buffer.from(content));
  }
  yield* walk(tar, byteString(directory), "", (path) => ignored(path) && !always.has(path));
  yield* tar.end();
}

async function ignoredFor(directory: string, file: string | undefined): Promise<Ignored> {
  const read = (name: string) => readFile(join(directory, name), "utf8").catch(() => undefined);
  const rules = (file && (await read(`${file}.dockerignore`))) ?? (await read(".dockerignore")) ?? "";
  try {
    return ignoredBy(rules);
  } catch (cause) {
    throw new CliError(`Cannot read the ignore file of "${directory}": ${(cause as Error).message}`);
  }
}

/** paths are byte strings, as a name need not be text */
async function* walk(tar: TarWriter, directory: string, below: string, ignored: Ignored): AsyncGenerator<Buffer> {
  for (const name of (await readdir(bytesOf(join(directory, below)), "latin1")).sort()) {
    const path = below === "" ? name : `${below}/${name}`;
    const whole = bytesOf(join(directory, path));
    const facts = await lstat(whole);
    const isIgnored = ignored(shownText(path));
    const member = { name: path, mode: facts.mode & 0o7777, modifiedAt: facts.mtimeMs };
    // An ignored directory may hold a file that a later rule includes again.
    if (facts.isDirectory()) {
      if (!isIgnored) yield* tar.member({ ...member, type: "directory" });
      yield* walk(tar, directory, path, ignored);
    } else if (isIgnored) continue;
    else if (facts.isSymbolicLink()) {
      yield* tar.member({ ...member, type: "symlink", target: await readlink(whole, "latin1") });
    } else if (facts.isFile()) yield* tar.member({ ...member, size: facts.size }, exactly(whole, facts.size));
  }
}

/** exactly as many bytes as its header says, even if the file grows or shrinks meanwhile */
async function* exactly(path: Buffer, size: number): AsyncGenerator<Buffer> {
  let left = size;
  if (size > 0) {
    for await (const chunk of createReadStream(path, { end: size - 1 }) as AsyncIterable<Buffer>) {
      left -= chunk.length;
      yield chunk;
    }
  }
  for (; left > 0; left -= Math.min(left, zeros.length)) yield zeros.subarray(0, left);
}

const zeros = Buffer.alloc(64 << 10);
