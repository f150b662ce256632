/** How the native program was built, read from its ELF file: protections that keep a bug from helping an attacker. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { guestBinary } from "../runner/needs.ts";

const file = readFileSync(guestBinary);

/** constants of 64-bit little-endian ELF, named as in <elf.h> */
const type = { dynamic: 3 };
const segment = { load: 1, dynamic: 2, interpreter: 3, stack: 0x6474e551, relro: 0x6474e552 };
const flags = { execute: 1, write: 2 };
const tag = { flags: 30, flags1: 0x6ffffffb };

interface Segment {
  type: number;
  flags: number;
  offset: number;
  size: number;
}

test("it is a static program whose addresses are chosen when it starts", () => {
  expect(file.readUInt16LE(16)).toBe(type.dynamic);
  expect(dynamic().get(tag.flags1) ?? 0n).toSatisfy((bits: bigint) => (bits & 0x0800_0000n) !== 0n);
  expect(segments().some((one) => one.type === segment.interpreter)).toBe(false);
});

test("no part of it can be both written and executed, the stack included", () => {
  const stack = segments().find((one) => one.type === segment.stack);
  expect(stack && stack.flags & flags.execute).toBe(0);
  for (const { flags: bits } of segments().filter((one) => one.type === segment.load))
    expect(bits & (flags.write | flags.execute)).not.toBe(flags.write | flags.execute);
});

test("its table of addresses is read-only once it runs", () => {
  expect(segments().some((one) => one.type === segment.relro)).toBe(true);
  const bindsNow = ((dynamic().get(tag.flags) ?? 0n) & 8n) !== 0n || ((dynamic().get(tag.flags1) ?? 0n) & 1n) !== 0n;
  expect(bindsNow).toBe(true);
});

test("stacks are guarded, and writes of known size are checked", () => {
  expect(file.includes("stack smashing detected")).toBe(true);
  expect(file.includes("buffer overflow detected")).toBe(true);
});

/** the first instruction of a function, by architecture: endbr64, and paciasp, which is a jump target too */
const marks: Record<string, string> = { x64: "\xf3\x0f\x1e\xfa", arm64: "\x3f\x23\x03\xd5" };

test("functions begin with a mark that some processors require of jump targets", () => {
  // The C library of some distributions has no such marks, so the file as a whole does not declare them.
  const mark = marks[process.arch] ?? "unknown architecture";
  expect(file.toString("latin1").split(mark).length).toBeGreaterThan(300);
});

function segments(): Segment[] {
  const [start, size, count] = [Number(file.readBigUInt64LE(32)), file.readUInt16LE(54), file.readUInt16LE(56)];
  return Array.from({ length: count }, (_, i) => {
    const at = start + i * size;
    return {
      type: file.readUInt32LE(at),
      flags: file.readUInt32LE(at + 4),
      offset: Number(file.readBigUInt64LE(at + 8)),
      size: Number(file.readBigUInt64LE(at + 32)),
    };
  });
}

function dynamic(): Map<number, bigint> {
  const found = segments().find((one) => one.type === segment.dynamic);
  const entries = new Map<number, bigint>();
  for (let at = found?.offset ?? 0; found && at < found.offset + found.size; at += 16)
    entries.set(Number(file.readBigUInt64LE(at)), file.readBigUInt64LE(at + 8));
  return entries;
}
