/** Sparse files of tar(1): the content comes back with its holes, in each format, and wrong maps are refused. */

import { execFile } from "node:child_process";
import { mkdtemp, open, readFile, rm, truncate } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { headerOf, TarError } from "./header.ts";
import { readTar } from "./reader.ts";

const run = promisify(execFile);

async function* cut(bytes: Buffer, length: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "sandkeep-test-"));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** a file with a piece of data in each of its blocks of 64 KiB, and a hole at its end */
async function sparseFile(path: string, pieces: number): Promise<void> {
  const file = await open(path, "w");
  for (let at = 0; at < pieces; at++) await file.write(`piece ${at}`, at * 65_536 + 4096);
  await file.close();
  await truncate(path, pieces * 65_536 + 100_000);
}

async function read(tar: Buffer, length = 700) {
  const members = [];
  for await (const { contents, ...member } of readTar(cut(tar, length))) {
    members.push({ ...member, content: Buffer.concat(await Array.fromAsync(contents())) });
  }
  return members;
}

test.each([
  ["GNU tar's own format", ["--format=gnu"]],
  ["pax, version 0.1", ["--format=pax", "--sparse-version=0.1"]],
  ["pax, version 1.0", ["--format=pax", "--sparse-version=1.0"]],
])("sparse files of any number of pieces are read from %s", async (_, options) => {
  const at = await folder();
  const names = [0, 3, 5, 60, 200].map((pieces) => ({ pieces, name: `${"long/".repeat(pieces)}file-${pieces}` }));
  for (const { name, pieces } of names) {
    await run("mkdir", ["-p", join(at, name, "..")]);
    await sparseFile(join(at, name), pieces);
  }
  await run("sh", ["-c", "echo last > after"], { cwd: at });
  const files = [...names.map(({ name }) => name), "after"];
  const packed = ["-C", at, ...options, "--sparse", "--hole-detection=raw", "-cf", join(at, "tar"), ...files];
  await run("tar", packed);
  const tar = await readFile(join(at, "tar"));
  expect(tar.length).toBeLessThan(2 << 20);
  for (const length of [1 << 20, 512, 700]) {
    const members = await read(tar, length);
    expect(members.map(({ name, type }) => [name, type])).toEqual(files.map((name) => [name, "file"]));
    for (const { name, content, size, holes } of members) {
      const expected = await readFile(join(at, name));
      expect(content.equals(expected)).toBe(true);
      expect(size).toBe(expected.length);
      if (name === "after") expect(holes).toBeUndefined();
      else expect(holes).toBeGreaterThan(90_000);
    }
  }
});

test("a sparse file that is skipped does not hide what follows", async () => {
  const at = await folder();
  await sparseFile(join(at, "sparse"), 60);
  await run("sh", ["-c", "echo last > after"], { cwd: at });
  for (const format of ["gnu", "pax"]) {
    await run("tar", ["-C", at, `--format=${format}`, "--sparse", "-cf", join(at, "tar"), "sparse", "after"]);
    const names: string[] = [];
    for await (const { name } of readTar(cut(await readFile(join(at, "tar")), 700))) names.push(name);
    expect(names).toEqual(["sparse", "after"]);
  }
});

const first = "1\n0\n3\n";
test.each<[string, Record<string, string>, string]>([
  ["pieces that overlap", { major: "0", minor: "1", map: "0,2,1,1", size: "10" }, "abc"],
  ["a piece beyond the end", { major: "0", minor: "1", map: "9,3", size: "10" }, "abc"],
  ["less content than pieces", { major: "0", minor: "1", map: "0,4", size: "10" }, "abc"],
  ["more content than pieces", { major: "0", minor: "1", map: "0,2", size: "10" }, "abc"],
  ["half a piece", { major: "0", minor: "1", map: "0,3,5", size: "10" }, "abc"],
  ["no number", { major: "0", minor: "1", map: "0,x", size: "10" }, "abc"],
  ["no size", { major: "1", minor: "0" }, `${first.padEnd(512, "\0")}abc`],
  ["a map that ends with the tar", { major: "1", minor: "0", realsize: "10" }, "5\n0\n"],
  ["a million pieces", { major: "1", minor: "0", realsize: "10" }, "1000000\n0\n1\n".padEnd(512, "\0")],
  ["endless digits", { major: "1", minor: "0", realsize: "10" }, "1".repeat(4096)],
  ["version 0.0", { major: "0", minor: "0", size: "10" }, "abc"],
  ["version 2.0", { major: "2", minor: "0", size: "10" }, "abc"],
])("%s is refused", async (_, records, content) => {
  const tar = sparseTar(records, content);
  await expect(read(tar)).rejects.toThrow(TarError);
});

test("a huge hole costs nothing until it is read", async () => {
  for await (const { size, holes, contents } of readTar(
    cut(sparseTar({ map: "0,3", size: `${2 ** 40}` }, "abc"), 99),
  )) {
    expect([size, holes]).toEqual([2 ** 40, 2 ** 40 - 3]);
    for await (const piece of contents()) {
      expect(piece.toString()).toBe("abc");
      break;
    }
  }
});

function sparseTar(records: Record<string, string>, content: string): Buffer {
  const member = { name: "f", type: "file", size: content.length, mode: 0o644, uid: 0, gid: 0 } as const;
  const header = headerOf(
    { ...member, modifiedAt: 0, target: "", major: 0, minor: 0, attributes: [] },
    Object.entries(records).map(([key, value]) => [`GNU.sparse.${key}`, Buffer.from(value)]),
  );
  return Buffer.concat([header, Buffer.from(content.padEnd(Math.ceil(content.length / 512) * 512, "\0"))]);
}
