/** Forms, however they are split into chunks, and malformed forms. */

import { expect, test } from "vitest";
import { boundaryOf, partsOf } from "./multipart.ts";

async function* pieces(text: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < text.length; at += size) yield text.subarray(at, at + size);
}

async function read(text: Buffer | string, size = 7) {
  const found: [string, string | undefined, string][] = [];
  for await (const { name, filename, bytes } of partsOf(pieces(Buffer.from(text), size), "b")) {
    const parts: Uint8Array[] = [];
    for await (const part of bytes) parts.push(part);
    found.push([name, filename, Buffer.concat(parts).toString("latin1")]);
  }
  return found;
}

const part = (disposition: string, bytes: string) =>
  `--b\r\nContent-Disposition: form-data; ${disposition}\r\nContent-Type: x/y\r\n\r\n${bytes}\r\n`;

test.each([1, 2, 7, 64, 10_000])("a form in pieces of %i bytes is read part by part", async (size) => {
  const tricky = "\r\n--\r\n-b\r\n--c\0\xff";
  const form = `before\r\n${part('name="file"; filename="/a/b.txt"', tricky)}${part('name="x"', "")}--b--\r\nafter`;
  expect(await read(Buffer.from(form, "latin1"), size)).toEqual([
    ["file", "/a/b.txt", tricky],
    ["x", undefined, ""],
  ]);
});

test.each([
  ['filename="a%22b%0D%0Ac"', 'a"b\r\nc'],
  ['filename="a\\"b"', 'a"b'],
  ['filename="a%20b"', "a%20b"],
  ['filename="../../é;x"', "../../é;x"],
  ["filename=plain", "plain"],
  ["filename=\"x\"; filename*=UTF-8''%C3%A9", "é"],
])("the name of a file in %s is %s", async (given, name) => {
  expect((await read(`${part(`name="file"; ${given}`, "1")}--b--`))[0]?.[1]).toBe(name);
});

test("bytes of a file are passed on as they came, without a copy", async () => {
  const middle = Buffer.alloc(100_000, "\r\n-");
  async function* body() {
    yield Buffer.from('--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n');
    yield middle;
    yield Buffer.from("x\r\n--b--");
  }
  for await (const { bytes } of partsOf(body(), "b")) {
    const [first] = await Array.fromAsync(bytes);
    expect([first?.buffer === middle.buffer, first?.byteOffset]).toEqual([true, middle.byteOffset]);
  }
});

test("a part that is not read is skipped", async () => {
  const names: string[] = [];
  const form = `${part('name="a"', "1".repeat(100))}${part('name="b"', "2")}--b--`;
  for await (const { name } of partsOf(pieces(Buffer.from(form), 9), "b")) names.push(name);
  expect(names).toEqual(["a", "b"]);
});

test.each([
  ["is empty", ""],
  ["has no boundary", "hello"],
  ["ends in a part", part('name="file"', "1").slice(0, -2)],
  ["ends in a head", "--b\r\nContent-Disposition: form-data"],
  ["ends after a boundary", "--b"],
  ["has a part without a name", `--b\r\n\r\n\r\n1\r\n--b--`],
  ["has an endless head", `--b\r\nX: ${"y".repeat(20_000)}`],
  ["has a boundary with a tail", `--bx\r\n\r\n1\r\n--b--`],
  ["has a name in a wrong encoding", `${part("name=\"f\"; filename*=UTF-8''%ff", "1")}--b--`],
])("a form that %s is refused", async (_, form) => {
  await expect(read(form)).rejects.toThrow("Cannot read the form: ");
});

test("what follows the form is read too, so that the connection can be reused", async () => {
  let isOver = false;
  async function* body() {
    yield Buffer.from(`${part('name="a"', "1")}--b--`);
    yield Buffer.from("\r\nafter");
    isOver = true;
  }
  for await (const { bytes } of partsOf(body(), "b")) for await (const _ of bytes);
  expect(isOver).toBe(true);
  await expect(read(`--b--${"x".repeat(40_000)}`, 1000)).rejects.toThrow("too much comes after its end");
});

test("the boundary is read from the content type", () => {
  expect(boundaryOf("multipart/form-data; boundary=----abc")).toBe("----abc");
  expect(boundaryOf('Multipart/Form-Data; charset=utf-8; boundary="a b"')).toBe("a b");
  for (const none of [
    null,
    "multipart/form-data",
    "multipart/mixed; boundary=x",
    `multipart/form-data; boundary=${"x".repeat(99)};`,
  ]) {
    expect(boundaryOf(none)).toBeUndefined();
  }
});
