/**
 * Writes files of a sandbox on this host. A sandbox gets a terabyte of zeros for nothing, as a hole in a file: so zeros are
 * holes here too, and a file that does not fit on the disk is refused before its first byte.
 */

import { type FileHandle, statfs } from "node:fs/promises";
import { sizeInWords } from "../../base/size-in-words.ts";
import { bytesOf, shownText } from "../../base/tar/byte-string.ts";
import { CliError } from "../errors.ts";

/** most file systems have blocks of this length, and no smaller holes */
const block = 4096;
const zeros = Buffer.alloc(block);

/** writes an empty file; anything but a file, such as a pipe, gets all bytes in order */
export async function writeSparse(file: FileHandle, bytes: AsyncIterable<Uint8Array>): Promise<void> {
  if (!(await file.stat()).isFile()) {
    for await (const chunk of bytes) await file.writeFile(chunk);
    return;
  }
  let at = 0;
  for await (const chunk of bytes) {
    for (const { start, end } of partsWithData(chunk, at)) {
      for (let done = start; done < end; ) done += (await file.write(chunk, done, end - done, at + done)).bytesWritten;
    }
    at += chunk.length;
  }
  await file.truncate(at);
}

/** refuses a file that does not fit; names are byte strings, and `replaced` are bytes on the disk that it takes over */
export async function requireRoom(
  directory: string,
  { name, size }: { name: string; size: number },
  replaced = 0,
): Promise<void> {
  const { bavail, bsize } = await statfs(bytesOf(directory));
  const free = bavail * bsize;
  if (size <= free + replaced) return;
  const why = `it has ${sizeInWords(size)}, and the disk of "${shownText(directory)}" has ${sizeInWords(free)} free`;
  throw new CliError(`Cannot write "${shownText(name)}": ${why}`);
}

/** the parts of a chunk without whole blocks of zeros; `at` is its place in the file */
function partsWithData(chunk: Uint8Array, at: number): { start: number; end: number }[] {
  const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  const parts: { start: number; end: number }[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = Math.min(bytes.length, start + block - ((at + start) % block));
    if (bytes.compare(zeros, 0, end - start, start, end) !== 0) {
      const last = parts.at(-1);
      if (last?.end === start) last.end = end;
      else parts.push({ start, end });
    }
    start = end;
  }
  return parts;
}
