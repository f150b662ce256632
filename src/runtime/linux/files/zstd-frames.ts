/**
 * Cuts a zstd stream where its frames end. Layers of pzstd, and those in the format zstd:chunked, have many frames, but
 * Node's decompressor drops what follows the end of a frame in the same piece.
 *
 *   frame      = magic 0xfd2fb528, descriptor (1), header, blocks, and a checksum of 4 bytes if the descriptor says so
 *   descriptor = bits 7-6: length of the content size; 5: single segment; 2: checksum; 1-0: length of the dictionary's id
 *   header     = window (1, unless the frame is a single segment), dictionary's id, content size
 *   block      = 3 bytes, little-endian (bit 0: last block; 2-1: type; the others: size), then its content
 *   skippable  = magic 0x184d2a50 to 5f, length (4), and that many bytes without data
 */

import { SandkeepError } from "../../../core/model/errors.ts";

/** whether a file that begins with these bytes is a zstd stream */
export function isZstd(start: Buffer): boolean {
  if (start.length < 4) return false;
  const magic = start.readUInt32LE();
  return magic === frameMagic || isSkippable(magic);
}

/** the same bytes in pieces that never reach beyond the end of a frame; throws "invalid" if they are not whole frames */
export async function* zstdFrames(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const frames = new Frames();
  for await (const chunk of source) {
    for (let at = 0; at < chunk.length; ) {
      const end = frames.endIn(chunk, at);
      yield chunk.subarray(at, end);
      at = end;
    }
  }
  frames.finish();
}

const frameMagic = 0xfd2fb528;
/** as many as a layer may have files: zstd:chunked has a frame for each, and every frame costs a turn of a thread */
const mostFrames = 4_000_000;

function isSkippable(magic: number): boolean {
  return magic >>> 4 === 0x184d2a5;
}

type Field = "magic" | "length" | "descriptor" | "header" | "block header" | "block" | "checksum" | "skipped";
/** the fields that decide what follows; none is longer than four bytes */
const numbers: ReadonlySet<Field> = new Set(["magic", "length", "descriptor", "block header"]);

/** The field of the format that comes next, over the boundaries of pieces. */
class Frames {
  #field: Field = "magic";
  /** bytes of it that are still to come */
  #left = 4;
  /** its bytes so far as a little-endian number, if it is one of `numbers` */
  #value = 0;
  #shift = 0;
  #hasChecksum = false;
  #isLast = false;
  #count = 0;

  /** where the frame that goes on at `at` ends, or the chunk, if that is earlier */
  endIn(chunk: Uint8Array, at: number): number {
    for (let here = at; here < chunk.length; ) {
      const taken = Math.min(this.#left, chunk.length - here);
      if (numbers.has(this.#field)) {
        for (const byte of chunk.subarray(here, here + taken)) {
          this.#value += byte * 2 ** this.#shift;
          this.#shift += 8;
        }
      }
      here += taken;
      this.#left -= taken;
      while (this.#left === 0) if (this.#next()) return here;
    }
    return chunk.length;
  }

  finish(): void {
    if (this.#field !== "magic" || this.#left < 4) throw broken("unexpected end of file");
  }

  /** begins the field after a complete one; whether a frame has ended with it */
  #next(): boolean {
    const value = this.#value;
    switch (this.#field) {
      case "magic":
        if (++this.#count > mostFrames) throw broken(`it has more than ${mostFrames} frames`);
        if (isSkippable(value)) return this.#begin("length", 4);
        if (value === frameMagic) return this.#begin("descriptor", 1);
        throw broken("something else follows a frame of zstd");
      case "length":
        return this.#begin("skipped", value);
      case "descriptor":
        this.#hasChecksum = (value & 4) !== 0;
        return this.#begin("header", headerLength(value));
      case "header":
        return this.#begin("block header", 3);
      case "block header":
        this.#isLast = (value & 1) !== 0;
        return this.#begin("block", blockLength(value));
      case "block":
        if (!this.#isLast) return this.#begin("block header", 3);
        return this.#begin("checksum", this.#hasChecksum ? 4 : 0);
      case "checksum":
      case "skipped":
        this.#begin("magic", 4);
        return true;
    }
  }

  #begin(field: Field, length: number): false {
    this.#field = field;
    this.#left = length;
    [this.#value, this.#shift] = [0, 0];
    return false;
  }
}

function headerLength(descriptor: number): number {
  const isSingle = (descriptor & 0x20) !== 0;
  const dictionary = [0, 1, 2, 4][descriptor & 3] ?? 0;
  const content = [isSingle ? 1 : 0, 2, 4, 8][descriptor >>> 6] ?? 0;
  return (isSingle ? 0 : 1) + dictionary + content;
}

function blockLength(header: number): number {
  const type = (header >>> 1) & 3;
  if (type === 3) throw broken("a block has an unknown type");
  // A block of type 1 is one byte, repeated.
  return type === 1 ? 1 : header >>> 3;
}

function broken(why: string): SandkeepError {
  return new SandkeepError("invalid", `Cannot decompress the data: ${why}`);
}
