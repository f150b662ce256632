/** The daemon's side of the wire, checked against guest/vectors.txt, whose top explains the vectors. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import {
  FrameParser,
  FrameReader,
  FrameWriter,
  headerLength,
  maxPayload,
  Type,
  What,
  WireError,
} from "./guest-frames.ts";

const guest = join(import.meta.dirname, "../../guest");
const vectors = parseVectors(readFileSync(join(guest, "vectors.txt"), "utf8"));

describe.for(vectors.filter((vector) => vector.kind === "frame"))("the frame $name", (vector) => {
  test("is built to the byte", () => {
    const writer = new FrameWriter();
    for (const field of vector.fields) write(writer, field);
    const built = writer.frame(vector.type, vector.id);
    expect(excerpt(built)).toBe(excerpt(vector.bytes));
    expect(built.equals(vector.bytes)).toBe(true);
  });

  test("is parsed into its fields, whatever the pieces it arrives in", () => {
    for (const size of [vector.bytes.length, 1 + Math.floor(vector.bytes.length / 7), 1]) {
      if (size === 1 && vector.bytes.length > 4096) continue;
      const parser = new FrameParser();
      const frames = pieces(vector.bytes, size).flatMap((piece) => parser.push(piece));
      expect(frames.map(({ type, id }) => ({ type, id }))).toEqual([{ type: vector.type, id: vector.id }]);
      expect(parser.pending).toBe(0);
      const values = readAll(vector, frames[0]?.payload ?? Buffer.alloc(0));
      for (const [i, field] of vector.fields.entries()) expect(same(values[i], wantedOf(field))).toBe(true);
    }
  });

  test("is malformed when any byte of its end is missing", () => {
    const payload = vector.bytes.subarray(headerLength);
    if (payload.length > 4096 || vector.fields.at(-1)?.kind === "raw") return;
    for (let length = 0; length < payload.length; length++) {
      expect(() => readAll(vector, payload.subarray(0, length))).toThrow(WireError);
    }
  });
});

test.for(vectors.filter((vector) => vector.kind === "malformed"))("the payload of $name is refused", (vector) => {
  const [frame] = new FrameParser().push(vector.bytes);
  expect(frame?.type).toBe(vector.type);
  expect(() => readAll(vector, frame?.payload ?? Buffer.alloc(0))).toThrow(WireError);
});

test.for(vectors.filter((vector) => vector.kind === "refused"))("the header of $name is refused", (vector) => {
  expect(() => new FrameParser().push(vector.bytes)).toThrow(WireError);
  const bitByBit = new FrameParser();
  expect(() => pieces(vector.bytes, 1).map((piece) => bitByBit.push(piece))).toThrow(WireError);
});

test.for(vectors.filter((vector) => vector.kind === "partial"))("the incomplete $name yields no frame", (vector) => {
  const parser = new FrameParser();
  expect(parser.push(vector.bytes)).toEqual([]);
  expect(parser.pending).toBe(vector.bytes.length);
});

test("frames that arrive together come out one by one, and the rest waits", () => {
  const small = vectors.filter((vector) => vector.kind === "frame" && vector.bytes.length < 4096);
  const last = Buffer.from("05000000010100000000", "hex");
  const parser = new FrameParser();
  const frames = parser.push(Buffer.concat([...small.map((vector) => vector.bytes), last]));
  expect(frames.map(({ type, id }) => [type, id])).toEqual(small.map(({ type, id }) => [type, id]));
  expect(parser.pending).toBe(last.length);
});

test("a long frame that arrives in small pieces is concatenated once", () => {
  const frame = new FrameWriter().raw(Buffer.alloc(maxPayload, 7)).frame(Type.data, 1);
  const parser = new FrameParser();
  const concat = vi.spyOn(Buffer, "concat");
  onTestFinished(() => concat.mockRestore());
  const frames = pieces(frame, 8).flatMap((piece) => parser.push(piece));
  expect(frames[0]?.payload.equals(frame.subarray(headerLength))).toBe(true);
  // Once for the header, once for the whole.
  expect(concat.mock.calls.length).toBeLessThanOrEqual(2);
});

test("both sides give every type and every kind of failure the same number", () => {
  const header = readFileSync(join(guest, "shared/wire.h"), "utf8");
  const numbers = new Map([...header.matchAll(/WIRE_([A-Z_]+) = (\d+)/g)].map(([, name = "", n]) => [name, Number(n)]));
  const ours = Object.entries(Type).map(([name, number]) => [constant(name), number] as const);
  const whats = Object.entries(What).map(([name, number]) => [`WHAT_${constant(name)}`, number] as const);
  expect(Object.fromEntries([...ours, ...whats])).toEqual(Object.fromEntries(numbers));
});

test("values that do not fit a frame are refused before they are sent", () => {
  expect(() => new FrameWriter().raw(Buffer.alloc(maxPayload + 1)).frame(Type.data, 1)).toThrow(WireError);
  expect(() => new FrameWriter().str("a\0b")).toThrow(WireError);
  expect(() => new FrameWriter().list(Array.from({ length: 65_536 }, () => ""))).toThrow(WireError);
  expect(() => new FrameWriter().u16(65_536)).toThrow(RangeError);
  expect(() => new FrameWriter().u64(-1)).toThrow(RangeError);
});

type Kind = "u8" | "u16" | "u32" | "u64" | "str" | "bytes" | "list" | "raw";

interface Field {
  kind: Kind;
  /** the value as the line has it */
  text: string;
}

interface Vector {
  kind: "frame" | "malformed" | "refused" | "partial";
  name: string;
  type: number;
  id: number;
  fields: Field[];
  bytes: Buffer;
}

function parseVectors(file: string): Vector[] {
  const blocks = file.split(/\n\n+/).map((block) => block.split("\n").filter((line) => line !== "" && line[0] !== "#"));
  return blocks.filter((lines) => lines.length > 0).map(parseVector);
}

function parseVector([first = "", ...lines]: string[]): Vector {
  const [kind, name = ""] = first.split(" ");
  const vector = { kind: kind as Vector["kind"], name, type: 0, id: 0, fields: [] as Field[], bytes: Buffer.alloc(0) };
  for (const line of lines) {
    const [, word = "", text = ""] = /^ {2}(\w+) ?(.*)$/.exec(line) ?? [];
    const [, type, id] = /^(\d+) id (\d+)$/.exec(text) ?? [];
    if (word === "type") Object.assign(vector, { type: Number(type), id: Number(id) });
    else if (word === "hex") vector.bytes = Buffer.concat([vector.bytes, parseHex(text)]);
    else vector.fields.push({ kind: word as Kind, text });
  }
  return vector;
}

function parseHex(text: string): Buffer {
  const tokens = text.split(" ").filter((token) => token !== "");
  return Buffer.concat(
    tokens.map((token) => {
      const [hex = "", times = "1"] = token.split("*");
      return Buffer.from(hex.repeat(Number(times)), "hex");
    }),
  );
}

/** each text of a line, and how often it is repeated */
function parseTexts(text: string): { value: string; times: number }[] {
  return [...text.matchAll(/"([^"]*)"(?:\*(\d+))?/g)].map(([, value = "", times = "1"]) => ({
    value,
    times: Number(times),
  }));
}

function wantedOf({ kind, text }: Field): bigint | string | string[] | Buffer {
  if (kind === "bytes" || kind === "raw") return parseHex(text);
  if (kind === "list")
    return parseTexts(text).flatMap(({ value, times }) => Array.from({ length: times }, () => value));
  if (kind === "str") {
    return parseTexts(text)
      .map(({ value, times }) => value.repeat(times))
      .join("");
  }
  return BigInt(text);
}

function write(writer: FrameWriter, field: Field): void {
  const value = wantedOf(field);
  if (typeof value === "bigint") {
    if (field.kind === "u64") writer.u64(value);
    else if (field.kind === "u8" || field.kind === "u16" || field.kind === "u32") writer[field.kind](Number(value));
  } else if (typeof value === "string") writer.str(value);
  else if (Array.isArray(value)) writer.list(value);
  else if (field.kind === "bytes") writer.bytes(value);
  else writer.raw(value);
}

type Value = number | string | string[] | Buffer;

/** the value of each field; raw is the whole payload */
function readAll(vector: Vector, payload: Buffer): Value[] {
  const reader = new FrameReader(payload);
  const values = vector.fields.map(({ kind }) => (kind === "raw" ? payload : reader[kind]()));
  if (vector.fields[0]?.kind !== "raw") reader.done();
  return values;
}

/** numbers are compared as the reader returns them: beyond 2^53 the nearest one */
function same(got: Value | undefined, wanted: bigint | string | string[] | Buffer): boolean {
  if (Buffer.isBuffer(got)) return Buffer.isBuffer(wanted) && got.equals(wanted);
  if (typeof wanted === "bigint") return got === Number(wanted);
  return JSON.stringify(got) === JSON.stringify(wanted);
}

function pieces(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}

/** stdinClose in TypeScript is STDIN_CLOSE in C */
function constant(name: string): string {
  return name.replace(/[A-Z]/g, "_$&").toUpperCase();
}

/** enough of a frame to see the difference */
function excerpt(bytes: Buffer): string {
  return `${bytes.length} bytes: ${bytes.subarray(0, 256).toString("hex")}`;
}

test.each([0, 1, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1])("the number %d is written and read in 64 bits", (value) => {
  const payload = new FrameWriter().u64(value).frame(0, 0).subarray(headerLength);
  expect(payload.readBigUInt64LE(0)).toBe(BigInt(value));
  expect(new FrameReader(payload).u64()).toBe(value);
});

test.each([-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])("%d does not fit 64 bits", (value) => {
  expect(() => new FrameWriter().u64(value)).toThrow(RangeError);
});
