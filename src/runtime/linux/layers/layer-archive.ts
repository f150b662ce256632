/**
 * A snapshot as one file, for other machines and for backups. The format, version 2: a zstd-compressed tar of
 *
 *   manifest.json              { "sandkeep": 2, "image": name@version, "layers": how many, "whole": …, "createdAt": ms }
 *   layers/0/000000            the tar of the topmost layer, cut into pieces of at most 4 MiB
 *   layers/0/000001 …
 *   layers/0/end.json          { "sha256": of that tar, "size": its length in bytes }
 *   layers/1/000000 …          the layer below, and so on
 *
 * "whole" says that the one layer holds the image's own files as well, so that only directories of the host are needed
 * below it. Otherwise the layers lie above those of the image. Version 1 has no "whole", and its layers always do.
 *
 * `cat layers/0/0*` restores a layer's tar. In it, whiteouts are character devices 0/0 and extended attributes are
 * LIBARCHIVE.xattr fields; opaque and moved directories have the overlay's own attributes.
 *
 * An archive is not trusted: members must come in exactly this order, and everything is checked before it is used.
 */

import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { createZstdCompress } from "node:zlib";
import { type Extract, extract, pack } from "tar-stream";
import { z } from "zod";
import { isSandkeepError, messageOf, SandkeepError } from "../../../core/model/errors.ts";
import { decompressed } from "../files/decompress.ts";
import { written } from "../files/tar.ts";

export interface ArchiveManifest {
  /** the image below the layers, in the form of imageReference() */
  image: string;
  layers: number;
  /** whether the layer holds the image's own files as well */
  whole: boolean;
  createdAt: number;
}

/** reads the tar of one layer of an archive; must read it to its end */
export type LayerReader = (index: number, tar: AsyncIterable<Buffer>) => Promise<void>;

/** packs layers, given by their tars, topmost first */
export function packArchive(manifest: ArchiveManifest, tarOf: (index: number) => AsyncIterable<Buffer>): Readable {
  return Readable.from(members(manifest, tarOf), { objectMode: false }).compose(createZstdCompress()) as Readable;
}

/** reads an archive: `begin` gets the manifest before any layer is read, and returns the reader for the layers */
export async function readArchive(
  file: AsyncIterable<Uint8Array>,
  begin: (manifest: ArchiveManifest) => Promise<LayerReader>,
): Promise<ArchiveManifest> {
  const parser = extract();
  let fed: unknown;
  const feeding = feed(parser, file).catch((error) => {
    fed = error;
    parser.destroy();
  });
  const input = new ArchiveMembers(parser[Symbol.asyncIterator]());
  try {
    const manifest = await input.json("manifest.json", manifestFile);
    const read = await begin(manifest);
    for (let index = 0; index < manifest.layers; index++) await readLayer(input, index, read);
    await input.end();
    return manifest;
  } catch (error) {
    const cause = fed ?? error;
    if (isSandkeepError(cause)) throw cause;
    throw refusal(`it is damaged or cut short (${messageOf(cause)})`, cause);
  } finally {
    parser.destroy();
    await feeding;
  }
}

type Member = Extract extends AsyncIterable<infer Source> ? Source : never;

const pieceLength = 4 << 20;
const longestJson = 64 << 10;
const mostLayers = 256;
// Larger sizes in a header are refused; no store is as large.
const largestLayer = 2 ** 46;

const manifestFile = z
  .object({
    sandkeep: z.union([z.literal(1), z.literal(2)]),
    image: z.string().max(200),
    layers: z.int().min(1).max(mostLayers),
    whole: z.boolean().default(false),
    createdAt: z.number(),
  })
  .refine(({ layers, whole }) => layers === 1 || !whole);
const endFile = z.object({ sha256: z.string(), size: z.number() });

async function* members(manifest: ArchiveManifest, tarOf: (index: number) => AsyncIterable<Buffer>) {
  yield* member("manifest.json", json({ sandkeep: 2, ...manifest }));
  for (let index = 0; index < manifest.layers; index++) {
    const hash = createHash("sha256");
    let size = 0;
    let number = 0;
    for await (const piece of pieces(tarOf(index))) {
      hash.update(piece);
      size += piece.length;
      yield* member(pieceName(index, number++), piece);
    }
    yield* member(`layers/${index}/end.json`, json({ sha256: hash.digest("hex"), size }));
  }
  yield Buffer.alloc(1024);
}

/** one member of the outer tar; tar-stream makes the header */
async function* member(name: string, content: Buffer): AsyncGenerator<Buffer> {
  const tar = pack();
  tar.entry({ name, mode: 0o600, mtime: new Date(0) }, content);
  tar.finalize();
  const whole = Buffer.concat(await Readable.from(tar as AsyncIterable<Buffer>).toArray());
  // without the two empty blocks, which would end the archive here
  yield whole.subarray(0, whole.length - 1024);
}

async function* pieces(tar: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let waiting: Buffer[] = [];
  let length = 0;
  for await (const chunk of tar) {
    waiting.push(chunk);
    length += chunk.length;
    if (length < pieceLength) continue;
    let whole = Buffer.concat(waiting, length);
    for (; whole.length >= pieceLength; whole = whole.subarray(pieceLength)) yield whole.subarray(0, pieceLength);
    waiting = [whole];
    length = whole.length;
  }
  if (length > 0) yield Buffer.concat(waiting, length);
}

async function readLayer(input: ArchiveMembers, index: number, read: LayerReader): Promise<void> {
  const hash = createHash("sha256");
  let size = 0;
  async function* content(): AsyncGenerator<Buffer> {
    for (let number = 0; ; number++) {
      const piece = await input.piece(pieceName(index, number), `layers/${index}/end.json`);
      if (!piece) return;
      hash.update(piece);
      size += piece.length;
      if (size > largestLayer) throw refusal(`layer ${index} is larger than ${largestLayer} bytes`);
      yield piece;
    }
  }
  const tar = content();
  await read(index, tar);
  if (!(await tar.next()).done) throw refusal(`layer ${index} goes on after its end`);
  const said = await input.json(`layers/${index}/end.json`, endFile);
  if (said.size !== size) throw refusal(`layer ${index} has ${size} bytes instead of ${said.size}`);
  if (said.sha256 !== hash.digest("hex")) throw refusal(`layer ${index} is not what its digest says`);
}

/** The members of the outer tar, requested by name in the order that they must have. */
class ArchiveMembers {
  readonly #members: AsyncIterator<Member>;
  #next: Member | undefined;

  constructor(members: AsyncIterator<Member>) {
    this.#members = members;
  }

  async json<T>(name: string, schema: z.ZodType<T>): Promise<T> {
    const member = await this.#peek();
    if (member?.header.name !== name) throw refusal(`"${name}" is missing`);
    const text = await this.#content(longestJson);
    try {
      return schema.parse(JSON.parse(text.toString()));
    } catch (cause) {
      throw refusal(`"${name}" is not what it should be`, cause);
    }
  }

  /** undefined when `end` comes instead; that member stays unread */
  async piece(name: string, end: string): Promise<Buffer | undefined> {
    const member = await this.#peek();
    if (member?.header.name === end) return undefined;
    if (member?.header.name !== name) throw refusal(`"${name}" is missing`);
    return this.#content(pieceLength);
  }

  async end(): Promise<void> {
    const member = await this.#peek();
    if (member) throw refusal(`"${member.header.name.slice(0, 100)}" does not belong there`);
  }

  async #peek(): Promise<Member | undefined> {
    this.#next ??= (await this.#members.next()).value;
    return this.#next;
  }

  async #content(longest: number): Promise<Buffer> {
    const member = this.#next;
    this.#next = undefined;
    if (!member) throw refusal("it is cut short");
    const { name, type, size = 0 } = member.header;
    if (type !== "file") throw refusal(`"${name.slice(0, 100)}" is not a file`);
    if (size > longest) throw refusal(`"${name.slice(0, 100)}" claims ${size} bytes, more than ${longest}`);
    const chunks: Buffer[] = [];
    for await (const chunk of member as AsyncIterable<Buffer>) chunks.push(chunk);
    return Buffer.concat(chunks);
  }
}

async function feed(parser: ReturnType<typeof extract>, file: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const chunk of decompressed(file)) {
    if (parser.destroyed) return;
    await written(parser, chunk);
  }
  parser.end(null);
}

function pieceName(index: number, number: number): string {
  return `layers/${index}/${String(number).padStart(6, "0")}`;
}

function json(value: object): Buffer {
  return Buffer.from(`${JSON.stringify(value)}\n`);
}

function refusal(why: string, cause?: unknown): SandkeepError {
  return new SandkeepError("invalid", `Cannot import the snapshot: ${why}`, { cause });
}
