/** Decompression in the calling thread: the same bytes and refusals as Node's streams, and every frame of zstd. */

import { randomBytes } from "node:crypto";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { refusal } from "../../../../test/harness/file-guest.ts";
import { inflated } from "../oci/inflate.ts";
import { decompressed } from "./decompress.ts";
import { openInflater } from "./inflater.ts";

async function* cut(bytes: Buffer, length: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}

/** one buffer for all pieces, as the source of a thread has */
async function* cutInPlace(bytes: Buffer, length: number): AsyncGenerator<Uint8Array> {
  const piece = Buffer.alloc(length);
  for await (const part of cut(bytes, length)) {
    piece.set(part);
    yield piece.subarray(0, part.length);
  }
}

async function joined(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of source) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces);
}

const free = async () => undefined;
const plain = Buffer.concat([randomBytes(700_000), Buffer.alloc(900_000, "text "), randomBytes(10)]);
const emptyFrame = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4]);

test.each([
  ["plain", plain, plain],
  ["nothing", Buffer.alloc(0), Buffer.alloc(0)],
  ["gzip", gzipSync(plain), plain],
  ["gzip in two members", Buffer.concat([gzipSync(plain), gzipSync(plain)]), Buffer.concat([plain, plain])],
  ["gzip with zeros behind it", Buffer.concat([gzipSync(plain), Buffer.alloc(600)]), plain],
  ["a bomb of gzip", gzipSync(Buffer.alloc(3_000_000)), Buffer.alloc(3_000_000)],
  ["zstd", zstdCompressSync(plain), plain],
  ["a bomb of zstd", zstdCompressSync(Buffer.alloc(3_000_000)), Buffer.alloc(3_000_000)],
])("%s is decompressed, however it is cut, with and without Node's handle", async (_, packed, expected) => {
  for (const length of [1 << 20, 4096, 977]) {
    expect((await joined(inflated(cutInPlace(packed, length), free))).equals(expected)).toBe(true);
    expect((await joined(inflated(cutInPlace(packed, length), free, () => undefined))).equals(expected)).toBe(true);
    expect((await joined(decompressed(cut(packed, length)))).equals(expected)).toBe(true);
  }
});

test("all frames of a zstd stream are read, also with frames without data before and between them", async () => {
  const [one, two] = [Buffer.from("one "), randomBytes(600_000)];
  const packed = Buffer.concat([emptyFrame, zstdCompressSync(one), emptyFrame, zstdCompressSync(two), emptyFrame]);
  for (const length of [1 << 20, 100]) {
    expect((await joined(inflated(cutInPlace(packed, length), free))).equals(Buffer.concat([one, two]))).toBe(true);
    expect((await joined(decompressed(cut(packed, length)))).equals(Buffer.concat([one, two]))).toBe(true);
  }
});

test.each([
  ["gzip that is cut short", gzipSync(plain).subarray(0, -9), /^invalid: Cannot decompress the data: unexpected end/],
  ["gzip of other bytes", spoiled(gzipSync(plain)), /^invalid: Cannot decompress the data: /],
  ["gzip with other data behind it", Buffer.concat([gzipSync(plain), plain]), /^invalid: Cannot decompress the data: /],
  ["zstd with other data behind it", Buffer.concat([zstdCompressSync(plain), plain]), /^invalid: Cannot decompress/],
])("%s is refused", async (_, packed, says) => {
  for (const length of [1 << 20, 4096]) {
    expect(await refusal(joined(inflated(cutInPlace(packed, length), free)))).toMatch(says);
    expect(await refusal(joined(decompressed(cut(packed, length))))).toMatch(says);
  }
});

test("this Node has the handle, and an error of the source is passed on", async () => {
  for (const kind of ["gzip", "zstd"] as const) {
    const inflater = openInflater(kind);
    expect(inflater).toBeDefined();
    inflater?.close();
  }
  const broken = async function* () {
    yield gzipSync(plain).subarray(0, 5000);
    throw new Error("the source broke");
  };
  await expect(joined(inflated(broken(), free))).rejects.toThrow("the source broke");
});

test("a buffer is used again only when its piece is released", async () => {
  const waiting: (() => void)[] = [];
  const released = () => new Promise<void>((resolve) => void waiting.push(resolve));
  const pieces = inflated(cut(Buffer.alloc(2 << 20, "a"), 256 << 10), released);
  const seen: Uint8Array[] = [];
  for (let count = 0; count < 4; count++) seen.push((await pieces.next()).value ?? new Uint8Array());
  const fifth = pieces.next();
  let isThere = false;
  void fifth.then(() => {
    isThere = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(isThere).toBe(false);
  waiting[0]?.();
  expect((await fifth).value?.buffer).toBe(seen[0]?.buffer);
  for (const resolve of waiting) resolve();
  await pieces.return(undefined);
});

function spoiled(packed: Buffer): Buffer {
  const bytes = Buffer.from(packed);
  const at = Math.floor(bytes.length / 2);
  bytes.fill(0xff, at, at + 64);
  return bytes;
}
