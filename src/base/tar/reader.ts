/** Reads a tar from a stream: its members in order, each with its content. */

import {
  blockLength,
  parseHeader,
  parseRecords,
  type RawHeader,
  type TarAttribute,
  TarError,
  type TarMember,
  type TarType,
} from "./header.ts";
import { checkSparse, oldSparseMap, paxSparseMap, type SparseMap, withHoles } from "./sparse.ts";

export interface ReadMember extends Omit<TarMember, "type"> {
  /** undefined if no program of today makes it */
  type: TarType | undefined;
  /** bytes of a file that are in no place of the tar, because they are holes; undefined if it is not sparse */
  holes: number | undefined;
  /** where its content begins in the tar */
  start: number;
  /** the content, to be read before the next member; what is not read is skipped */
  contents(): AsyncIterable<Buffer>;
}

/**
 * The members up to the end of the archive, which is two blocks of zeros or the end of the stream. The stream is then
 * read to its end. Throws TarError for what is no tar, and errors of the source unchanged.
 */
export async function* readTar(source: AsyncIterable<Uint8Array>): AsyncGenerator<ReadMember> {
  const input = new Input(source);
  try {
    const shared: Records = new Map();
    for (let zeros = 0; zeros < 2; ) {
      const member = await nextMember(input, shared);
      if (member === "end") return;
      zeros = member === "zeros" ? zeros + 1 : 0;
      if (member === "zeros") continue;
      const { sparse, stored, ...facts } = member;
      let left = stored;
      const some = async (most: number) => {
        const piece = await input.some(most);
        left -= piece.length;
        return piece;
      };
      const contents = async function* () {
        if (sparse) return yield* withHoles(sparse, some);
        while (left > 0) yield await some(left);
      };
      const over = (blockLength - (stored % blockLength)) % blockLength;
      yield { ...facts, contents };
      await input.skip(left + over);
    }
    await input.drain();
  } finally {
    await input.close();
  }
}

/** most bytes of an extended header; all attributes that a file can have fit in twice */
const largestExtra = 4 << 20;
/** the same, of one that counts for all members that follow, and how many records these may have: each looks at them */
const largestShared = 64 << 10;
const mostShared = 100;
/** what libarchive (base64), and GNU tar and Docker (any bytes), put before the name of an attribute */
const attributePrefixes = ["LIBARCHIVE.xattr.", "SCHILY.xattr."] as const;

type Records = Map<string, Buffer>;

type PlacedMember = Omit<ReadMember, "contents"> & {
  /** bytes of its content in the tar */
  stored: number;
  sparse?: SparseMap;
};

async function nextMember(input: Input, shared: Records): Promise<PlacedMember | "zeros" | "end"> {
  const own: Records = new Map();
  let isInside = false;
  for (;;) {
    const block = await input.block(isInside);
    if (!block) return "end";
    const header = parseHeader(block);
    if (!header) {
      if (isInside) throw new TarError("an extended header has no member");
      return "zeros";
    }
    if (!isExtra(header)) {
      const member = memberOf(header, own.size === 0 ? shared : new Map([...shared, ...own]));
      return placed(input, member, { letter: header.letter, block, own });
    }
    isInside = header.type !== "global-records";
    if (header.size > (isInside ? largestExtra : largestShared)) throw new TarError("an extended header is too long");
    const content = await input.exactly(header.size);
    await input.skip((blockLength - (header.size % blockLength)) % blockLength);
    if (header.type === "long-name") own.set("path", untilZero(content));
    else if (header.type === "long-target") own.set("linkpath", untilZero(content));
    else for (const [key, value] of parseRecords(content)) (isInside ? own : shared).set(key, Buffer.from(value));
    if ([...shared.keys()].some(isSparseKey)) throw new TarError("it has the map of a sparse file for all members");
    if (shared.size > mostShared) throw new TarError("it has too many records for all members");
  }
}

function isExtra({ type }: RawHeader): boolean {
  return type === "records" || type === "global-records" || type === "long-name" || type === "long-target";
}

function isSparseKey(key: string): boolean {
  return key.startsWith("GNU.sparse.");
}

/** a member whose content is read next; the map of a sparse one is read here */
async function placed(
  input: Input,
  member: ReturnType<typeof memberOf>,
  { letter, block, own }: { letter: string; block: Buffer; own: Records },
): Promise<PlacedMember> {
  const isOld = letter === "S";
  const isPax = [...own.keys()].some(isSparseKey);
  if (!isOld && !(isPax && member.type === "file")) {
    return { ...member, holes: undefined, stored: member.size, start: input.position };
  }
  const before = input.position;
  const take = (length: number) => input.exactly(length);
  const sparse = await (isOld ? oldSparseMap(block, take) : paxSparseMap(own, take));
  // The blocks of the old format do not count as content.
  const stored = member.size - (isOld ? 0 : input.position - before);
  checkSparse(sparse, stored);
  const name = own.get("GNU.sparse.name")?.toString("latin1") ?? member.name;
  const { size } = sparse;
  return {
    ...{ ...member, name: withoutNul(name), type: "file", size, holes: size - stored },
    ...{ stored, sparse, start: input.position },
  };
}

function memberOf(header: RawHeader, records: Records): Omit<ReadMember, "contents" | "start" | "holes"> {
  const { letter: _, ...facts } = header;
  // Not an extra one, as isExtra() has looked.
  const type = header.type as TarType | undefined;
  const text = (key: string) => {
    const value = records.get(key);
    return value === undefined || value.length === 0 ? undefined : value.toString("latin1");
  };
  const number = (key: string) => {
    const value = text(key);
    if (value !== undefined && !/^-?\d{1,15}(\.\d*)?$/.test(value)) {
      throw new TarError(`an extended header has a bad "${key}"`);
    }
    return value === undefined ? undefined : Number(value);
  };
  const hasContent = type === "file" || type === undefined;
  const seconds = number("mtime");
  const name = withoutNul(text("path") ?? facts.name);
  return {
    ...facts,
    name,
    type,
    target: withoutNul(text("linkpath") ?? facts.target),
    // A file of an old tar whose name ends in a slash is a directory, and has a size of 0 anyway.
    size: hasContent ? (number("size") ?? facts.size) : 0,
    uid: number("uid") ?? facts.uid,
    gid: number("gid") ?? facts.gid,
    modifiedAt: seconds === undefined ? facts.modifiedAt : seconds * 1000,
    attributes: attributesIn(records),
  };
}

function attributesIn(records: Records): TarAttribute[] {
  const attributes: TarAttribute[] = [];
  const [coded, plain] = attributePrefixes;
  for (const [key, value] of records) {
    if (key.startsWith(coded)) {
      attributes.push({ name: key.slice(coded.length), value: Buffer.from(value.toString("latin1"), "base64") });
    } else if (key.startsWith(plain)) attributes.push({ name: key.slice(plain.length), value });
  }
  return attributes;
}

function untilZero(content: Buffer): Buffer {
  const end = content.indexOf(0);
  return end < 0 ? content : content.subarray(0, end);
}

function withoutNul(name: string): string {
  if (name.includes("\0")) throw new TarError("a name has a zero in it");
  return name;
}

/** The bytes of a stream, taken in the lengths that the format needs. */
class Input {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #chunk: Buffer = Buffer.alloc(0);
  #isOver = false;
  /** bytes taken so far */
  position = 0;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  /** a header's block; undefined at the end of the stream, unless something has to follow */
  async block(isNeeded: boolean): Promise<Buffer | undefined> {
    if (!isNeeded && this.#chunk.length === 0 && !(await this.#fetch())) return undefined;
    return this.exactly(blockLength);
  }

  async exactly(length: number): Promise<Buffer> {
    if (this.#chunk.length >= length) return this.#take(length);
    const pieces: Buffer[] = [];
    for (let left = length; left > 0; ) {
      const piece = await this.some(left);
      pieces.push(piece);
      left -= piece.length;
    }
    return Buffer.concat(pieces, length);
  }

  /** at least one byte, and at most that many */
  async some(most: number): Promise<Buffer> {
    while (this.#chunk.length === 0) if (!(await this.#fetch())) throw new TarError("it is cut short");
    return this.#take(Math.min(most, this.#chunk.length));
  }

  async skip(length: number): Promise<void> {
    for (let left = length; left > 0; ) left -= (await this.some(left)).length;
  }

  async drain(): Promise<void> {
    while (await this.#fetch());
  }

  async close(): Promise<void> {
    if (!this.#isOver) await this.#chunks.return?.();
    this.#isOver = true;
  }

  #take(length: number): Buffer {
    const piece = this.#chunk.subarray(0, length);
    this.#chunk = this.#chunk.subarray(length);
    this.position += length;
    return piece;
  }

  async #fetch(): Promise<boolean> {
    if (this.#isOver) return false;
    try {
      const { done, value } = await this.#chunks.next();
      this.#isOver = done === true;
      if (!done) this.#chunk = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
      return !done;
    } catch (error) {
      this.#isOver = true;
      throw error;
    }
  }
}
