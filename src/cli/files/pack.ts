/** Packs files of this host into a tar, only as fast as it is sent. Names are byte strings, as a name need not be text. */

import { createReadStream } from "node:fs";
import { lstat, readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import type { Ignored } from "../../base/files/path-patterns.ts";
import { bytesOf, shownText } from "../../base/tar/byte-string.ts";
import type { TarWriter } from "../../base/tar/writer.ts";

export interface Packed {
  /** where the files are */
  directory: string;
  /** what comes before their names in the tar: empty, or a path that ends with a slash */
  prefix?: string;
  ignored?: Ignored;
  /** called for each entry that is no file, directory or symlink, and therefore not in the tar */
  leftOut?: () => void;
}

/** everything below a directory */
export function packDirectory(tar: TarWriter, packed: Packed): AsyncGenerator<Buffer> {
  return walk(tar, packed, "");
}

/** one file, symlink or directory, under another name */
export async function* packEntry(
  tar: TarWriter,
  path: string,
  name: string,
  leftOut?: () => void,
): AsyncGenerator<Buffer> {
  const whole = bytesOf(path);
  const facts = await lstat(whole);
  const member = { name, mode: facts.mode & 0o7777, modifiedAt: facts.mtimeMs };
  if (facts.isDirectory()) yield* tar.member({ ...member, type: "directory" });
  else if (facts.isSymbolicLink())
    yield* tar.member({ ...member, type: "symlink", target: await readlink(whole, "latin1") });
  else if (facts.isFile()) yield* tar.member({ ...member, size: facts.size }, exactly(whole, facts.size));
  else leftOut?.();
}

async function* walk(tar: TarWriter, packed: Packed, below: string): AsyncGenerator<Buffer> {
  const { directory, prefix = "", ignored = () => false, leftOut } = packed;
  for (const name of (await readdir(bytesOf(join(directory, below)), "latin1")).sort()) {
    const path = below === "" ? name : `${below}/${name}`;
    const place = join(directory, path);
    if (!ignored(shownText(path))) yield* packEntry(tar, place, `${prefix}${path}`, leftOut);
    // An ignored directory may hold a file that a later rule includes again.
    if ((await lstat(bytesOf(place))).isDirectory()) yield* walk(tar, packed, path);
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
