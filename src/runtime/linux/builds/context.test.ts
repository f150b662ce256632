/** Build contexts: how their files are found, and that hostile ones only cause a clear error. */

import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { extract, pack } from "tar-stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { TarHeader } from "../../../../test/harness/images/image-archives.ts";
import { receiveContext } from "./context.ts";

let scratch = "";
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkeep-context-"));
});
afterAll(() => rm(scratch, { recursive: true }));

type Entry = TarHeader & { content?: string };

async function tarOf(entries: Entry[]): Promise<Buffer> {
  const tar = pack();
  for (const { content = "", ...header } of entries) tar.entry(header, content);
  tar.finalize();
  return Buffer.concat(await Readable.from(tar as AsyncIterable<Buffer>).toArray());
}

async function contextOf(entries: Entry[], largest = 1 << 20) {
  return receiveContext(Readable.from([gzipSync(await tarOf(entries))]), { scratch, largest });
}

async function namesIn(tar: AsyncIterable<Uint8Array>): Promise<string[]> {
  const parser = extract();
  parser.end(Buffer.concat(await Array.fromAsync(tar)));
  const names: string[] = [];
  for await (const member of parser) {
    const text = Buffer.concat(await Array.fromAsync(member as AsyncIterable<Buffer>)).toString();
    names.push(`${member.header.name}${member.header.linkname ? ` -> ${member.header.linkname}` : ""}=${text}`);
  }
  return names;
}

const files: Entry[] = [
  { name: "./a.txt", content: "one", mode: 0o600 },
  { name: "dir/sub/b", content: "two" },
  { name: "dir/same", type: "link", linkname: "a.txt" },
  { name: "link", type: "symlink", linkname: "dir/sub" },
  { name: "dir/up", type: "symlink", linkname: "/../../a.txt" },
  { name: "loop", type: "symlink", linkname: "loop" },
  { name: "dir/pipe", type: "fifo" },
];

test("files, directories and links are found at their paths, and nothing stays on the disk", async () => {
  const context = await contextOf(files);
  expect(await readdir(scratch)).toEqual([]);
  expect(context.find("/a.txt")).toEqual({ path: "a.txt", type: "file" });
  expect(context.find("link/b")).toEqual({ path: "dir/sub/b", type: "file" });
  expect(context.find("dir/up")).toMatchObject({ path: "a.txt" });
  expect(context.find("dir/same")).toMatchObject({ type: "file" });
  expect(context.find("dir/pipe")).toBeUndefined();
  expect(context.find("loop")).toBeUndefined();
  const keepsLinks = { keepsLinks: true };
  expect(context.find("loop", keepsLinks)).toEqual({ path: "loop", type: "file" });
  expect(context.find("link/b", keepsLinks)).toEqual({ path: "dir/sub/b", type: "file" });
  expect(await namesIn(context.archive("link"))).toEqual(["link -> dir/sub="]);
  expect(context.names("")).toEqual(["a.txt", "dir", "link", "loop"]);
  expect(await namesIn(context.archive("dir"))).toEqual(["same=one", "sub=", "sub/b=two", "up -> /../../a.txt="]);
  expect(await namesIn(context.archive("a.txt"))).toEqual(["a.txt=one"]);
  expect(await context.text("a.txt")).toBe("one");
  await context.close();
});

test("a digest changes with names, contents, types and permissions, and with nothing else", async () => {
  const digest = async (changed: Partial<Entry>, at = "") => {
    const context = await contextOf([{ ...files[0], ...changed } as Entry, ...files.slice(1)]);
    const text = context.digest(at);
    await context.close();
    return text;
  };
  const before = await digest({});
  expect(await digest({ mtime: new Date(5000), uid: 7 })).toBe(before);
  const others = await Promise.all([digest({ content: "1ne" }), digest({ mode: 0o644 }), digest({}, "dir")]);
  expect(new Set([before, ...others]).size).toBe(4);
});

test("an ignored file is never found, and a file excepted from that keeps its directories", async () => {
  const context = await contextOf([...files, { name: "dir/keep/me", content: "k" }]);
  context.ignore((path) => path === "a.txt" || (/^dir(\/|$)/.test(path) && !path.startsWith("dir/keep")));
  expect(context.find("a.txt")).toBeUndefined();
  expect(context.names("")).toEqual(["dir", "link", "loop"]);
  expect(await namesIn(context.archive(""))).toEqual([
    "dir=",
    "dir/keep=",
    "dir/keep/me=k",
    "link -> dir/sub=",
    "loop -> loop=",
  ]);
  expect(await context.text("a.txt")).toBe("one");
  await context.close();
});

test("directories that are left out are looked at once, however deep they lie in each other", async () => {
  const context = await contextOf([{ name: `${"d/".repeat(2000)}keep` }]);
  context.ignore((path) => !path.endsWith("keep"));
  const begin = process.cpuUsage();
  context.digest("");
  expect(process.cpuUsage(begin).user / 1000).toBeLessThan(5000);
  expect(context.names("")).toEqual(["d"]);
  context.ignore(() => true);
  expect(context.names("")).toEqual([]);
  await context.close();
});

test("each piece of a context asks for room before it is written", async () => {
  let asked = 0;
  const tar = await tarOf([
    { name: "a", content: "x" },
    { name: "b", content: "y" },
  ]);
  let isClosed = false;
  const context = await receiveContext(Readable.from([tar]), {
    scratch,
    largest: 9,
    requireRoom: () => void asked++,
    closed: () => {
      isClosed = true;
    },
  });
  expect(asked).toBe(2);
  expect(isClosed).toBe(false);
  await context.close();
  expect(isClosed).toBe(true);
});

test.each<[string, Entry[], string]>([
  ["an absolute path", [{ name: "/etc/passwd" }], '"/etc/passwd" is an absolute path'],
  ["a path that leads up", [{ name: "a/../../b" }], '"a/../../b" has ".." in it'],
  [
    "a file below a symlink",
    [
      { name: "a", type: "symlink", linkname: "/etc" },
      { name: "a/passwd", content: "x" },
    ],
    '"a/passwd" is below something that is no directory',
  ],
  ["a hard link to the host", [{ name: "a", type: "link", linkname: "etc/passwd" }], "a file that is not there"],
  ["too many bytes", [{ name: "a", content: "x".repeat(2000) }], "it is larger than 1000 bytes"],
])("%s is refused, and nothing of it stays", async (_, entries, message) => {
  await expect(contextOf(entries, 1000)).rejects.toThrow(message);
  expect(await readdir(scratch)).toEqual([]);
});

test("a context that fills the disk is refused while it is received", async () => {
  async function* endless(): AsyncGenerator<Buffer> {
    const tar = pack();
    tar.entry({ name: "a", size: 2 ** 32 });
    const { value } = await (tar as AsyncIterable<Buffer>)[Symbol.asyncIterator]().next();
    yield value;
    for (let count = 0; count < 200; count++) yield Buffer.alloc(1 << 20);
  }
  const requireRoom = () => {
    throw new Error("the disk is full");
  };
  const receiving = receiveContext(endless(), { scratch, largest: 2 ** 33, requireRoom });
  await expect(receiving).rejects.toThrow("the disk is full");
  expect(await readdir(scratch)).toEqual([]);
});

test("an archive that never ends is refused", async () => {
  async function* zeros(): AsyncGenerator<Buffer> {
    for (let count = 0; count < 100; count++) yield Buffer.alloc(1 << 20);
  }
  await expect(receiveContext(zeros(), { scratch, largest: 1, largestTar: 1 << 22 })).rejects.toThrow("larger than");
});

test("an archive that is cut short is refused", async () => {
  const tar = (await tarOf([{ name: "a", content: "x".repeat(5000) }])).subarray(0, 2000);
  await expect(receiveContext(Readable.from([tar]), { scratch, largest: 1 << 20 })).rejects.toThrow("no whole tar");
  await expect(receiveContext(Readable.from([Buffer.from("hello")]), { scratch, largest: 9 })).rejects.toThrow(
    "no whole tar",
  );
});
