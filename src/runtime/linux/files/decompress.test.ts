/** Decompressed streams, of the tools that write them: all of their data, however it is cut, and nothing that is broken. */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { constants, gzipSync, zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { refusal } from "../../../../test/harness/guest/file-guest.ts";
import { tempDir } from "../../../../test/harness/harness.ts";
import { decompressed } from "./decompress.ts";

const run = promisify(execFile);

/** the pieces cross all boundaries of the format */
async function* cut(bytes: Buffer, length: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}

async function plainOf(packed: Buffer, length = 1 << 20): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of decompressed(cut(packed, length))) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** what a program makes of a file */
async function packedBy(program: string, args: string[], content: Buffer): Promise<Buffer> {
  const folder = await tempDir();
  await writeFile(join(folder, "plain"), content);
  await run(program, [...args, join(folder, "plain"), "-o", join(folder, "packed")]);
  return readFile(join(folder, "packed"));
}

/** more than one frame of pzstd */
const plain = Buffer.concat([randomBytes(700_000), Buffer.alloc(2 << 20, "text "), randomBytes(300_000)]);
const skippable = Buffer.from([0x5f, 0x2a, 0x4d, 0x18, 5, 0, 0, 0, 1, 2, 3, 4, 5]);
const emptySkippable = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]);
const emptyFrame = zstdCompressSync(Buffer.alloc(0));

test.each([
  ["gzip", gzipSync(plain), plain],
  ["gzip in two members", Buffer.concat([gzipSync(plain), gzipSync(plain)]), Buffer.concat([plain, plain])],
  ["gzip with zeros behind it", Buffer.concat([gzipSync(plain), Buffer.alloc(600)]), plain],
  ["a frame of zstd", zstdCompressSync(plain), plain],
  [
    "two frames of zstd",
    Buffer.concat([zstdCompressSync(plain), zstdCompressSync(plain)]),
    Buffer.concat([plain, plain]),
  ],
  [
    "frames of zstd without data between others",
    Buffer.concat([skippable, emptyFrame, zstdCompressSync(plain), emptySkippable, emptyFrame, skippable]),
    plain,
  ],
  [
    "a thousand small frames of zstd",
    Buffer.concat(Array.from({ length: 1000 }, (_, at) => zstdCompressSync(Buffer.alloc(at, "x")))),
    Buffer.alloc((1000 * 999) / 2, "x"),
  ],
  [
    "frames of zstd that fill each piece exactly",
    Buffer.concat([zstdCompressSync(Buffer.alloc(256 << 10)), zstdCompressSync(Buffer.alloc(512 << 10)), skippable]),
    Buffer.alloc(768 << 10),
  ],
  ["nothing", Buffer.alloc(0), Buffer.alloc(0)],
  ["plain bytes", plain, plain],
])("%s: all of it is decompressed, however it is cut", async (_, packed, expected) => {
  for (const length of [packed.length + 1, 4096, 977, ...(packed.length < 100_000 ? [1] : [])]) {
    expect((await plainOf(packed, length)).equals(expected)).toBe(true);
  }
});

test.each([
  ["zstd", ["-q", "-T0", "-B512KiB"]],
  ["zstd", ["-q", "--no-check", "-19", "--long=27"]],
  ["zstd", ["-q", "--format=gzip"]],
  ["pzstd", ["-q", "-1", "-p", "4"]],
])("what %s %j writes is decompressed", async (program, args) => {
  const packed = await packedBy(program, args, plain);
  // Its frames, each after a skippable one that says how long it is.
  if (program === "pzstd") expect(packed.toString("latin1").split("\x50\x2a\x4d\x18").length).toBeGreaterThan(2);
  for (const length of [1 << 20, 977]) expect((await plainOf(packed, length)).equals(plain)).toBe(true);
  expect(await refusal(plainOf(packed.subarray(0, -1)))).toMatch(
    /^invalid: Cannot decompress the data: unexpected end/,
  );
});

const frame = zstdCompressSync(plain);
test.each([
  ["gzip that is cut short", gzipSync(plain).subarray(0, -9), "unexpected end of file"],
  ["zstd that is cut short", frame.subarray(0, -9), "unexpected end of file"],
  ["zstd whose second frame is cut short", Buffer.concat([frame, frame.subarray(0, 6)]), "unexpected end of file"],
  ["zstd with a part of a magic behind it", Buffer.concat([frame, frame.subarray(0, 3)]), "unexpected end of file"],
  ["a skippable frame that is cut short", Buffer.concat([frame, skippable.subarray(0, -1)]), "unexpected end of file"],
  ["zstd with other data behind it", Buffer.concat([frame, plain]), "something else follows a frame of zstd"],
  ["zstd with zeros behind it", Buffer.concat([frame, Buffer.alloc(512)]), "something else follows a frame of zstd"],
  [
    "a block of an unknown type",
    Buffer.concat([frame, frame.subarray(0, 5), Buffer.alloc(99, 0x07)]),
    "a block has an",
  ],
  ["zstd of other bytes", spoiled(zstdCompressSync(plain, { params: { [constants.ZSTD_c_checksumFlag]: 1 } })), ""],
])("%s is refused", async (_, packed, why) => {
  for (const length of [1 << 20, 4096]) {
    expect(await refusal(plainOf(packed, length))).toContain(`invalid: Cannot decompress the data: ${why}`);
  }
});

test("an error of the source is passed on", async () => {
  const broken = async function* () {
    yield frame.subarray(0, 5000);
    throw new Error("the source broke");
  };
  await expect(decompressed(broken()).next()).rejects.toThrow("the source broke");
});

function spoiled(packed: Buffer): Buffer {
  const bytes = Buffer.from(packed);
  const at = Math.floor(bytes.length * 0.8);
  bytes.fill(0xff, at, at + 64);
  return bytes;
}
