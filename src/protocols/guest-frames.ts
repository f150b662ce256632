/**
 * The frames between the daemon, the launcher and the agents; guest/shared/wire.h is the other side of the same format.
 *
 *   offset  size  what
 *   0       4     u32 length of the payload, at most 1 MiB
 *   4       1     u8  type
 *   5       4     u32 id: a request's number, repeated in its answers; 0 for events
 *   9       n     payload
 *
 * All numbers are little-endian. In a payload, a str or bytes is a u32 length and that many bytes (a str holds no NUL);
 * a list is a u16 count and that many str. Both sides are tested against guest/vectors.txt.
 */

export const wireVersion = 1;
export const headerLength = 9;
export const maxPayload = 1 << 20;
/** the largest part of a stream in one DATA frame */
export const chunkLength = 128 << 10;

export const Type = {
  ok: 1,
  fail: 2,
  data: 3,
  end: 4,
  hello: 8,
  ping: 9,
  exec: 16,
  stdin: 17,
  stdinClose: 18,
  stdinAt: 22,
  stdinGiven: 23,
  signal: 19,
  resize: 20,
  commands: 21,
  grew: 24,
  exit: 25,
  filters: 26,
  spare: 27,
  files: 32,
  read: 33,
  write: 34,
  stat: 35,
  list: 36,
  mkdir: 37,
  move: 38,
  remove: 39,
  chmod: 40,
  chown: 41,
  symlink: 42,
  link: 43,
  utime: 44,
  watch: 45,
  walk: 46,
  whiteout: 47,
  setxattr: 48,
  entry: 49,
  changed: 50,
  usage: 51,
  fifo: 52,
  dial: 64,
  holders: 65,
  holder: 66,
  prepare: 96,
  activate: 97,
  kill: 98,
  network: 99,
  counters: 100,
  machines: 101,
  volumeCreate: 102,
  volumeSnapshot: 103,
  volumeDelete: 104,
  volumeLimit: 105,
  filesAt: 106,
  flatten: 107,
  readopt: 108,
  shutdown: 109,
  volumeUsage: 110,
  writes: 111,
  sync: 112,
  volumeLine: 113,
  volumeForget: 114,
  volumeCopy: 115,
  killCount: 116,
} as const;

/** the subject of a FAIL */
export const What = { request: 0, user: 1, cwd: 2, executable: 3, path: 4, layer: 5, system: 6 } as const;

export interface Frame {
  type: number;
  id: number;
  payload: Buffer;
}

/** A malformed frame; the connection cannot be used any more. */
export class WireError extends Error {
  override readonly name = "WireError";
}

/** Builds one frame, field by field. */
export class FrameWriter {
  /** the header's place comes first */
  #buffer = Buffer.allocUnsafe(firstRoom);
  #length = headerLength;

  u8(value: number): this {
    const at = this.#grow(1);
    this.#buffer.writeUInt8(value, at);
    return this;
  }
  u16(value: number): this {
    const at = this.#grow(2);
    this.#buffer.writeUInt16LE(value, at);
    return this;
  }
  u32(value: number): this {
    const at = this.#grow(4);
    this.#buffer.writeUInt32LE(value, at);
    return this;
  }
  u64(value: number | bigint): this {
    const at = this.#grow(8);
    // For most values, two halves take less time than a BigInt, which refuses what is not a whole number.
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) {
      this.#buffer.writeUInt32LE(value % half, at);
      this.#buffer.writeUInt32LE(Math.floor(value / half), at + 4);
    } else this.#buffer.writeBigUInt64LE(BigInt(value), at);
    return this;
  }
  bytes(value: Uint8Array): this {
    this.u32(value.length);
    return this.raw(value);
  }
  /** a text, or bytes that may be no text */
  str(value: string | Buffer): this {
    if (value.includes("\0")) throw new WireError("A text holds a NUL byte");
    if (typeof value !== "string") return this.bytes(value);
    const length = Buffer.byteLength(value);
    this.u32(length);
    const at = this.#grow(length);
    this.#buffer.write(value, at);
    return this;
  }
  list(values: readonly string[]): this {
    if (values.length > 0xffff) throw new WireError("A list has more than 65,535 entries");
    this.u16(values.length);
    for (const value of values) this.str(value);
    return this;
  }
  raw(value: Uint8Array): this {
    const at = this.#grow(value.length);
    this.#buffer.set(value, at);
    return this;
  }
  frame(type: number, id: number): Buffer {
    putHeader(this.#buffer, this.#length - headerLength, type, id);
    return this.#buffer.subarray(0, this.#length);
  }

  /** room for that many more bytes; returns their place */
  #grow(count: number): number {
    const at = this.#length;
    this.#length += count;
    const length = this.#length - headerLength;
    if (length > maxPayload) throw new WireError(`A frame of ${length} bytes is longer than ${maxPayload}`);
    if (this.#length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#length, 2 * this.#buffer.length));
      larger.set(this.#buffer.subarray(0, at));
      this.#buffer = larger;
    }
    return at;
  }
}

/** the header of a frame whose payload follows by itself */
export function frameHeader(length: number, type: number, id: number): Buffer {
  const header = Buffer.allocUnsafe(headerLength);
  putHeader(header, length, type, id);
  return header;
}

/** as much as most requests to run a command take */
const firstRoom = 512;
const half = 2 ** 32;

function putHeader(buffer: Buffer, length: number, type: number, id: number): void {
  buffer.writeUInt32LE(length, 0);
  buffer.writeUInt8(type, 4);
  buffer.writeUInt32LE(id, 5);
}

/** Reads the fields of a payload in order; throws WireError where they do not fit. */
export class FrameReader {
  readonly #payload: Buffer;
  #at = 0;

  constructor(payload: Buffer) {
    this.#payload = payload;
  }

  u8(): number {
    return this.#payload.readUInt8(this.#take(1));
  }
  u16(): number {
    return this.#payload.readUInt16LE(this.#take(2));
  }
  u32(): number {
    return this.#payload.readUInt32LE(this.#take(4));
  }
  /** as a number: exact up to 2^53, which no offset or size reaches */
  u64(): number {
    const at = this.#take(8);
    return this.#payload.readUInt32LE(at) + this.#payload.readUInt32LE(at + 4) * half;
  }
  bytes(): Buffer {
    const length = this.u32();
    const start = this.#take(length);
    return this.#payload.subarray(start, start + length);
  }
  /** as text, or with "latin1" as one character for each byte */
  str(as: "utf8" | "latin1" = "utf8"): string {
    const bytes = this.bytes();
    if (bytes.includes(0)) throw new WireError("A text holds a NUL byte");
    return bytes.toString(as);
  }
  list(): string[] {
    const count = this.u16();
    return Array.from({ length: count }, () => this.str());
  }
  /** whether no field is left */
  get isEmpty(): boolean {
    return this.#at === this.#payload.length;
  }
  /** call this after the last field: no bytes may be left over */
  done(): void {
    if (this.#at !== this.#payload.length) {
      throw new WireError(`A frame has ${this.#payload.length - this.#at} bytes too many`);
    }
  }

  #take(count: number): number {
    const start = this.#at;
    if (start + count > this.#payload.length) throw new WireError("A frame is shorter than its fields");
    this.#at = start + count;
    return start;
  }
}

/** Cuts a byte stream into frames. */
export class FrameParser {
  #chunks: Buffer[] = [];
  #length = 0;
  /** bytes to wait for before parsing: a frame is concatenated once, however small the pieces */
  #needed = headerLength;

  /** takes received bytes and returns the frames that are complete now */
  push(chunk: Buffer): Frame[] {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    const frames: Frame[] = [];
    if (this.#length < this.#needed) return frames;
    this.#needed = headerLength;
    let buffer = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#length);
    while (buffer.length >= headerLength) {
      const length = buffer.readUInt32LE(0);
      if (length > maxPayload) throw new WireError(`A frame claims ${length} bytes, more than ${maxPayload}`);
      this.#needed = headerLength + length;
      if (buffer.length < this.#needed) break;
      frames.push({
        type: buffer.readUInt8(4),
        id: buffer.readUInt32LE(5),
        payload: buffer.subarray(headerLength, headerLength + length),
      });
      buffer = buffer.subarray(this.#needed);
      this.#needed = headerLength;
    }
    this.#chunks = buffer.length > 0 ? [buffer] : [];
    this.#length = buffer.length;
    return frames;
  }

  /** bytes of a frame that is not complete yet */
  get pending(): number {
    return this.#length;
  }
}
