/** Tars in and out: what tar(1) and tar-stream make of ours, what we make of theirs, and what is refused. */

import { Readable } from "node:stream";
import { pack } from "tar-stream";
import { expect, test } from "vitest";
import { byteString, bytesOf, shownText, textOf } from "./byte-string.ts";
import { headerOf, TarError, tarEnd } from "./header.ts";
import { type ReadMember, readTar } from "./reader.ts";
import { type NewMember, TarWriter } from "./writer.ts";

const notText = "caf\xe9\xff";

async function written(members: [NewMember, string?, [string, Buffer][]?][]): Promise<Buffer> {
  const tar = new TarWriter();
  const pieces: Buffer[] = [];
  for (const [member, content = "", records] of members) {
    const contents = Readable.from([Buffer.from(content)]);
    const whole = { ...member, size: Buffer.byteLength(content) };
    for await (const piece of tar.member(whole, contents, records)) pieces.push(piece);
  }
  return Buffer.concat([...pieces, ...tar.end()]);
}

async function* cut(bytes: Buffer, length: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}

async function read(tar: Buffer, length = 700): Promise<(Omit<ReadMember, "contents"> & { content: string })[]> {
  const members = [];
  for await (const { contents, ...member } of readTar(cut(tar, length))) {
    members.push({ ...member, content: Buffer.concat(await Array.fromAsync(contents())).toString() });
  }
  return members;
}

test("names that are no text come back as the same bytes, long ones and targets too", async () => {
  const long = `${"directory/".repeat(40)}${notText}`;
  const tar = await written([
    [{ name: notText, mode: 0o4755, uid: 1000, gid: 65_535, modifiedAt: 1_500_000_000_000 }, "content"],
    [{ name: long, type: "symlink", target: `/${long}` }],
    [{ name: "far", modifiedAt: 20e12 }, "x".repeat(100_000)],
  ]);
  for (const length of [1, 511, 512, 1 << 20]) {
    const [first, second, third] = await read(tar, length);
    expect(first).toMatchObject({ name: notText, mode: 0o4755, uid: 1000, gid: 65_535, content: "content" });
    expect(first).toMatchObject({ type: "file", modifiedAt: 1_500_000_000_000, start: 512 });
    expect(second).toMatchObject({ name: long, type: "symlink", target: `/${long}`, size: 0 });
    expect(third).toMatchObject({ modifiedAt: 20e12, size: 100_000 });
    expect(tar.toString("latin1", third?.start, (third?.start ?? 0) + 3)).toBe("xxx");
  }
});

test("attributes keep any bytes, in both forms that tools write", async () => {
  const value = Buffer.from([0, 0xff, 0x0a, 0x3d, 0x80]);
  const records: [string, Buffer][] = [
    ["SCHILY.xattr.user.plain", value],
    ["LIBARCHIVE.xattr.user.coded", Buffer.from(value.toString("base64"))],
  ];
  const [member] = await read(await written([[{ name: "a" }, "", records]]));
  expect(member?.attributes).toEqual([
    { name: "user.plain", value },
    { name: "user.coded", value },
  ]);
});

test("sizes, owners and names of another program's records replace the header's own fields", async () => {
  const tar = pack();
  tar.entry({ name: "short", pax: { path: "räume/x", uid: "70000", mtime: "12.5" } } as never, "hello");
  tar.entry({ name: `${"n".repeat(90)}/${"m".repeat(90)}` }, "deep");
  tar.entry({ name: "hard", type: "link", linkname: "short", size: 0 });
  tar.finalize();
  const whole = Buffer.concat(await Readable.from(tar as AsyncIterable<Buffer>).toArray());
  const [first, second, third] = await read(whole);
  expect(first).toMatchObject({ name: byteString("räume/x"), uid: 70_000, modifiedAt: 12_500, content: "hello" });
  expect(second).toMatchObject({ name: `${"n".repeat(90)}/${"m".repeat(90)}`, content: "deep" });
  expect(third).toMatchObject({ type: "link", target: "short", size: 0 });
});

test("an archive ends at two blocks of zeros, or with its stream, and content that is not read is skipped", async () => {
  const one = await written([[{ name: "a" }, "content"]]);
  const two = await written([[{ name: "b" }, "x".repeat(5000)]]);
  const names = async (tar: Buffer) => {
    const found = [];
    for await (const { name } of readTar(cut(tar, 300))) found.push(name);
    return found;
  };
  expect(await names(Buffer.concat([one, two]))).toEqual(["a"]);
  expect(await names(Buffer.concat([one.subarray(0, 1024), Buffer.alloc(512), two]))).toEqual(["a", "b"]);
  expect(await names(one.subarray(0, 1024))).toEqual(["a"]);
  expect(await names(Buffer.alloc(0))).toEqual([]);
});

test.each<[string, () => Promise<Buffer> | Buffer]>([
  ["a file that is cut short", async () => (await written([[{ name: "a" }, "content"]])).subarray(0, 700)],
  ["a header that is cut short", async () => (await written([[{ name: "a" }, "content"]])).subarray(0, 300)],
  ["other data", () => Buffer.alloc(2048, "no tar at all ")],
  ["records without a member", async () => extra("x", "10 path=a\n")],
  ["records that are too long", () => extra("x", "x".repeat(5 << 20))],
  ["records for all members that are too long", () => extra("g", "x".repeat(70_000))],
  ["a record with a wrong length", () => extra("x", "99 path=a\n")],
  ["a record without a value", () => extra("x", "7 path\n")],
  ["a record with a size that is no number", () => withRecord("12 size=1e9\n")],
  ["a name with a zero in it", () => withRecord("12 path=a\0b\n")],
])("%s is refused", async (_what, tar) => {
  await expect(read(await tar())).rejects.toThrow(TarError);
});

test("an error of the source is passed on unchanged, and a reader that leaves ends the source", async () => {
  const error = new Error("the source broke");
  const tar = await written([[{ name: "a" }, "content"]]);
  let isEnded = false;
  async function* source(breaks: boolean) {
    try {
      yield tar.subarray(0, 600);
      if (breaks) throw error;
      yield tar.subarray(600);
    } finally {
      isEnded = true;
    }
  }
  const all = async () => {
    for await (const { contents } of readTar(source(true))) for await (const _ of contents());
  };
  await expect(all()).rejects.toBe(error);
  isEnded = false;
  for await (const _ of readTar(source(false))) break;
  expect(isEnded).toBe(true);
});

test("byte strings keep every byte, and become text only where they are text", () => {
  expect(bytesOf(byteString("größe"))).toEqual(Buffer.from("größe"));
  expect(textOf(byteString("größe"))).toBe("größe");
  expect(textOf(notText)).toBeUndefined();
  expect(shownText(notText)).toBe("caf\ufffd\ufffd");
});

/** a member of a type that describes others, and nothing after it */
function extra(letter: string, content: string): Buffer {
  const padded = Buffer.alloc(Math.ceil(content.length / 512) * 512);
  padded.write(content);
  return Buffer.concat([retyped(headerOf(whole({ name: "x", size: content.length })), letter), padded, tarEnd()]);
}

function withRecord(content: string): Buffer {
  return Buffer.concat([extra("x", content).subarray(0, -1024), headerOf(whole({ name: "a" })), tarEnd()]);
}

function whole(member: NewMember) {
  const rest = { mode: 0o644, uid: 0, gid: 0, modifiedAt: 0, target: "", major: 0, minor: 0, attributes: [] };
  return { type: "file" as const, size: 0, ...rest, ...member };
}

/** the header with another letter for its type, and the sum that goes with it */
function retyped(block: Buffer, letter: string): Buffer {
  const changed = Buffer.from(block);
  changed.write(letter, 156);
  changed.fill(0x20, 148, 156);
  const sum = changed.reduce((total, byte) => total + byte, 0);
  changed.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return changed;
}
