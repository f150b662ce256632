/** Packs a tree of a sandbox or a layer as a tar stream, and defines the form of a layer's special files in a tar. */

import { isUtf8 } from "node:buffer";
import { posix } from "node:path";
import { type Header, type Pack, pack } from "tar-stream";
import type { Attribute, Entry } from "./file-entry.ts";
import type { FileSession, WalkStep } from "./file-session.ts";

/** A member's header, with the extended fields that tar-stream passes through unchanged. */
export interface TarHeader extends Partial<Omit<Header, "name" | "pax">> {
  name: string;
  pax?: Record<string, string> | null;
}

export interface ArchiveOptions {
  /**
   * A layer, for extractTar() with the same option: includes the directory itself, its whiteouts (character devices
   * 0/0) and extended attributes. Otherwise devices are left out, as sockets always are.
   */
  layer?: boolean;
  /** with `layer`: for other tools, from a complete layer; leaves out what only an overlay understands */
  oci?: boolean;
}

/**
 * The tar of a file (one member of its name) or of a directory's content (relative names). It is made as fast as it is
 * read, in constant memory. Names that are not UTF-8 are packed with U+FFFD in place of the bad bytes.
 */
export async function* archiveTar(
  session: FileSession,
  path: string,
  options: ArchiveOptions = {},
): AsyncGenerator<Buffer> {
  const { layer = false, oci = false } = options;
  const output = new TarOutput();
  try {
    for await (const step of session.walk(path, { contents: true, attributes: layer })) {
      const header = headerOf(oci ? foreign(step.entry) : step.entry, path, layer && !(oci && isWhiteout(step.entry)));
      if (header) yield* output.member(header, step);
    }
    yield* output.end();
  } finally {
    output.close();
  }
}

const xattrPrefix = "LIBARCHIVE.xattr.";
const plainXattrPrefix = "SCHILY.xattr.";

/**
 * the extended attributes in a member's header: as libarchive (base64), or GNU tar and Docker (plain text) write them
 */
export function attributesOf(header: TarHeader): Attribute[] {
  const attributes: Attribute[] = [];
  for (const [key, value] of Object.entries(header.pax ?? {})) {
    if (key.startsWith(xattrPrefix)) {
      attributes.push({ name: key.slice(xattrPrefix.length), value: Buffer.from(value, "base64") });
    }
    // Parsing the header destroyed bytes that are not text; part of an attribute is worse than none.
    if (key.startsWith(plainXattrPrefix) && !value.includes("\ufffd")) {
      attributes.push({ name: key.slice(plainXattrPrefix.length), value: Buffer.from(value) });
    }
  }
  return attributes;
}

// The largest time that fits tar-stream's header field, in seconds.
const latestTime = 2 ** 31 - 1;
// Small members are passed on together.
const pieceLength = 64 << 10;

/** tar-stream's packer, turned into an iterable whose consumer sets the pace. */
export class TarOutput {
  readonly #pack: Pack = pack();
  #pieces: Buffer[] = [];
  #length = 0;
  #error: unknown;

  constructor() {
    this.#pack.on("data", (data) => {
      // A packer yields only buffers, which tar-stream's type does not say.
      const piece = data as Buffer;
      this.#pieces.push(piece);
      this.#length += piece.length;
    });
    this.#pack.on("error", (error) => {
      this.#error = error;
    });
  }

  async *member(header: TarHeader, step: Pick<WalkStep, "contents">): AsyncGenerator<Buffer> {
    const done = Promise.withResolvers<void>();
    const sink = this.#pack.entry(header, (error) => (error ? done.reject(error) : done.resolve()));
    done.promise.catch(() => undefined);
    if (header.type === "file") {
      for await (const piece of step.contents ?? []) {
        await written(sink, piece);
        yield* this.#take(pieceLength);
      }
      const closed = new Promise<void>((resolve) => sink.on("close", () => resolve()));
      sink.end(null);
      await closed;
    } else {
      await done.promise;
    }
    if (this.#error !== undefined) throw this.#error;
    yield* this.#take(pieceLength);
  }

  async *end(): AsyncGenerator<Buffer> {
    const ended = new Promise<void>((resolve) => this.#pack.on("end", () => resolve()));
    this.#pack.finalize();
    await ended;
    yield* this.#take(0);
  }

  close(): void {
    this.#pack.destroy();
  }

  *#take(atLeast: number): Generator<Buffer> {
    if (this.#length === 0 || this.#length < atLeast) return;
    const piece = Buffer.concat(this.#pieces, this.#length);
    this.#pieces = [];
    this.#length = 0;
    yield piece;
  }
}

/** attributes that are valid on any system */
const plainAttribute = /^(user\..+|security\.capability)$/;

/** an entry with the attributes that other systems know */
function foreign(entry: Entry): Entry {
  return {
    ...entry,
    attributes: entry.attributes.filter(({ name }) => plainAttribute.test(name)),
    isForeign: true,
  } as Entry;
}

function isWhiteout({ type }: Entry): boolean {
  return type === "character-device";
}

const tarTypes: Partial<Record<Entry["type"], Header["type"]>> = {
  file: "file",
  directory: "directory",
  symlink: "symlink",
  fifo: "fifo",
  link: "link",
  "character-device": "character-device",
};

/** the header of a member, or undefined if it is left out */
function headerOf(entry: Entry, path: string, layer: boolean): TarHeader | undefined {
  const type = tarTypes[entry.type];
  if (!type || (type === "symlink" && entry.target === "")) return undefined;
  if (type === "character-device" && !(layer && entry.major === 0 && entry.minor === 0)) return undefined;
  if (entry.path === "" && type === "directory" && !layer) return undefined;
  const seconds = Math.floor(entry.modifiedAt / 1000);
  const pax = paxOf(entry, seconds);
  return {
    name: entry.path === "" ? (type === "directory" ? "./" : posix.basename(path)) : entry.path,
    type,
    size: type === "file" ? entry.size : 0,
    // The type's bits keep tar-stream from treating a mode of 0 as missing; it drops them.
    mode: entry.mode | 0o100000,
    uid: entry.uid,
    gid: entry.gid,
    mtime: new Date(Math.min(seconds, latestTime) * 1000),
    ...(entry.target !== "" && { linkname: entry.target }),
    ...(type === "character-device" && { devmajor: entry.major, devminor: entry.minor }),
    ...(pax && { pax }),
  };
}

function paxOf(entry: Entry, seconds: number): Record<string, string> | undefined {
  const fields = entry.attributes.map(({ name, value }) => [xattrPrefix + name, value.toString("base64")] as const);
  // The form that most tools understand takes text only.
  const texts = "isForeign" in entry ? entry.attributes.filter(({ value }) => isUtf8(value)) : [];
  fields.push(...texts.map(({ name, value }) => [plainXattrPrefix + name, value.toString()] as const));
  if (seconds > latestTime) fields.push(["mtime", String(seconds)]);
  return fields.length > 0 ? Object.fromEntries(fields) : undefined;
}

/** Either kind of writable stream: Node's, or the one that tar-stream is made of. */
interface Sink {
  write(piece: Uint8Array): boolean;
  readonly destroyed: boolean;
  on(event: "drain" | "close", listener: () => void): unknown;
  off(event: "drain" | "close", listener: () => void): unknown;
}

/** writes a piece and waits until the stream takes more, or is gone */
export function written(stream: Sink, piece: Uint8Array): Promise<void> | undefined {
  if (stream.write(piece)) return undefined;
  return new Promise((resolve) => {
    const go = () => {
      stream.off("drain", go);
      stream.off("close", go);
      resolve();
    };
    stream.on("drain", go);
    stream.on("close", go);
    if (stream.destroyed) go();
  });
}
