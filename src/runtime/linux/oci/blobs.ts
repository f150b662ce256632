/**
 * The files of an image: an OCI layout directory, or a tar of one or of `docker save`. A tar is read once to find the
 * place of every file, then each file from its place. Only a compressed or piped tar is copied to a temporary file
 * first.
 */

import { constants } from "node:fs";
import { type FileHandle, lstat, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { codeOf } from "../../../base/error-code.ts";
import { shownText } from "../../../base/tar/byte-string.ts";
import { type ReadMember, readTar } from "../../../base/tar/reader.ts";
import { isSandkeepError, messageOf, SandkeepError } from "../../../core/model/errors.ts";
import { decompressed } from "../files/decompress.ts";
import { processTag } from "../layers/claims.ts";
import { largestJson } from "./manifest.ts";
import { refusal } from "./refusal.ts";

export interface Blobs {
  has(name: string): Promise<boolean>;
  /** the whole file; names are relative, without "..", and must lead to regular files */
  read(name: string): AsyncIterable<Uint8Array>;
  /** the plain tar that contains them; undefined if they are files of a directory, or there are none */
  tar?: () => AsyncIterable<Uint8Array>;
  close(): Promise<void>;
}

/** the source of an image: a path, or the bytes of a tar */
export type ArchiveSource = string | AsyncIterable<Uint8Array>;

/** A place for temporary copies of sources that cannot be read twice. */
export interface Scratch {
  /** a folder in which nothing outlives this process */
  folder: string;
  /** called with the number of bytes about to be written; throws when that is too much */
  take(count: number): void;
}

export async function openBlobs(source: ArchiveSource, scratch: Scratch): Promise<Blobs> {
  if (typeof source !== "string") return tarBlobs(await putAside(source, scratch));
  const facts = await lstat(source).catch((cause) => {
    const why = codeOf(cause) === "ENOENT" ? "there is no such file or directory" : messageOf(cause);
    throw new SandkeepError("not-found", `Cannot import "${source}": ${why}`, { cause });
  });
  if (facts.isDirectory()) return directoryBlobs(source);
  const file = await open(source, "r");
  if (await isPlainTar(file)) return tarBlobs(file);
  try {
    return await tarBlobs(await putAside(range(file, null, Number.POSITIVE_INFINITY), scratch));
  } finally {
    await file.close();
  }
}

/** the content of a small file */
export async function readSmall(blobs: Blobs, name: string): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of blobs.read(name)) {
    length += chunk.length;
    if (length > largestJson) throw refusal(`"${name}" is larger than ${largestJson} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const mostMembers = 500_000;
const pieceLength = 1 << 18;

function directoryBlobs(directory: string): Blobs {
  const facts = async (name: string) => {
    if (!isPlainPath(name)) return undefined;
    return lstat(join(directory, name)).catch(() => undefined);
  };
  return {
    has: async (name) => (await facts(name))?.isFile() ?? false,
    async *read(name) {
      if (!(await facts(name))?.isFile()) throw refusal(`"${name}" is missing`);
      const file = await open(join(directory, name), constants.O_RDONLY | constants.O_NOFOLLOW);
      yield* file.createReadStream();
    },
    close: async () => {},
  };
}

/** takes over the open file */
async function tarBlobs(file: FileHandle): Promise<Blobs> {
  let places: Map<string, Place>;
  try {
    places = await placesIn(file);
  } catch (error) {
    await file.close();
    throw isSandkeepError(error) ? error : refusal(`it is no whole tar file (${messageOf(error)})`, error);
  }
  const find = (name: string, hops = 0): Place | undefined => {
    const place = places.get(name);
    // Old versions of `docker save` use a link for a layer that two images share.
    return place && "link" in place && hops < 3 ? find(place.link, hops + 1) : place;
  };
  return {
    has: async (name) => find(name) !== undefined,
    async *read(name) {
      const place = find(name);
      if (!place || "link" in place) throw refusal(`"${name}" is missing`);
      const { start, size } = place;
      yield* range(file, start, start + size);
    },
    ...(places.size > 0 && { tar: () => range(file, 0, Number.POSITIVE_INFINITY) }),
    close: () => file.close(),
  };
}

type Place = { start: number; size: number } | { link: string };

async function placesIn(file: FileHandle): Promise<Map<string, Place>> {
  const places = new Map<string, Place>();
  for await (const member of readTar(range(file, 0, Number.POSITIVE_INFINITY))) {
    const name = shownText(member.name).replace(/^(\.\/)+/, "");
    const place = placeOf(member, name);
    if (place && isPlainPath(name)) places.set(name, place);
    if (places.size > mostMembers) throw refusal(`it has more than ${mostMembers} files`);
  }
  return places;
}

function placeOf({ type, size, start, target, holes }: ReadMember, name: string): Place | undefined {
  // No tool writes blobs with holes.
  if (holes !== undefined) return undefined;
  if (type === "file") return { start, size };
  if (type === "link") return { link: shownText(target) };
  if (type === "symlink") return { link: join(name, "..", shownText(target)) };
  return undefined;
}

/** the bytes between two offsets, or from the current position; stops at the end of the file */
async function* range(file: FileHandle, start: number | null, end: number): AsyncGenerator<Uint8Array> {
  for (let at = start; ; at = at === null ? null : at + pieceLength) {
    const length = Math.min(pieceLength, end - (at ?? 0));
    if (length <= 0) return;
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(length), 0, length, at);
    if (bytesRead > 0) yield buffer.subarray(0, bytesRead);
    if (bytesRead === 0 || (at !== null && bytesRead < length)) return;
  }
}

async function isPlainTar(file: FileHandle): Promise<boolean> {
  if (!(await file.stat()).isFile()) return false;
  const magic = Buffer.alloc(5);
  await file.read(magic, 0, 5, 257);
  return magic.toString() === "ustar";
}

/** a plain copy in a file without a name, which the kernel deletes even after a crash */
async function putAside(source: AsyncIterable<Uint8Array>, scratch: Scratch): Promise<FileHandle> {
  const path = join(scratch.folder, processTag());
  const file = await open(path, "wx+", 0o600);
  try {
    await rm(path);
    for await (const chunk of decompressed(source)) {
      scratch.take(chunk.length);
      await file.write(chunk);
    }
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

function isPlainPath(name: string): boolean {
  return name.length < 1000 && name.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}
