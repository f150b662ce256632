/** Tar archives in and out, against the guest's real file code; hostile ones too. */

import { execFile } from "node:child_process";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { pack } from "tar-stream";
import { describe, expect, onTestFinished, test } from "vitest";
import { all, refusal, startFileGuest, useFileGuest } from "../../../../test/harness/guest/file-guest.ts";
import { tempDir } from "../../../../test/harness/harness.ts";
import type { TarHeader } from "../../../../test/harness/images/image-archives.ts";
import { filesOver } from "./files.ts";
import { archiveTar } from "./tar.ts";
import { extractTar } from "./tar-extract.ts";

const run = promisify(execFile);
const guest = useFileGuest();
const files = filesOver(guest.connect);

type Member = TarHeader & { contents?: string };

async function tarOf(...members: Member[]): Promise<Buffer> {
  const output = pack();
  for (const { contents, ...header } of members) output.entry(header, contents ?? "");
  output.finalize();
  return Buffer.concat((await all(output)) as Buffer[]);
}

/** the bytes in small pieces that cross all boundaries of the archive */
async function* pieces(bytes: Uint8Array, length = 700): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}

/** a header that tar-stream would not write, with a valid checksum */
function rawHeader(name: string, size: string): Buffer {
  const block = Buffer.alloc(512);
  block.write(name, 0);
  block.write("0000644\0", 100);
  block.write("0000000\0", 108);
  block.write("0000000\0", 116);
  block.write(`${size.padStart(11, "0")} `, 124);
  block.write("00000000000 ", 136);
  block.write("        ", 148);
  block.write("0ustar\0".slice(0, 1), 156);
  block.write("ustar\0", 257);
  block.write("00", 263);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

async function names(directory: string): Promise<string[]> {
  return (await fs.readdir(directory, { recursive: true })).sort();
}

describe("extract", () => {
  test.each([
    ["plain", (tar: Buffer) => tar],
    ["gzip", (tar: Buffer) => gzipSync(tar)],
    ["zstd", (tar: Buffer) => zstdCompressSync(tar)],
  ])("unpacks a %s tar, makes parents, keeps modes and times", async (_kind, compress) => {
    const directory = join(await tempDir(), "new/target");
    const mtime = new Date(1_500_000_000_000);
    const tar = await tarOf(
      { name: "vercel/sandbox/a.txt", contents: "hello", mode: 0o640, mtime },
      { name: "./bin/", type: "directory", mode: 0o2711, mtime },
      { name: "bin/run", contents: "#!/bin/sh\n", mode: 0o4755, mtime },
      { name: "bin/link", type: "symlink", linkname: "/etc/passwd" },
      { name: "bin/same", type: "link", linkname: "bin/run" },
      { name: "pipe", type: "fifo", mode: 0o600 },
      { name: "closed/", type: "directory", mode: 0o500 },
      { name: "closed/in", contents: "1" },
      { name: `${"long/".repeat(60)}name`, contents: "deep" },
      { name: "h\u00e4.txt", contents: "" },
    );
    await files.extract(directory, pieces(compress(tar)));
    expect(await fs.readFile(join(directory, "vercel/sandbox/a.txt"), "utf8")).toBe("hello");
    expect(await files.stat(join(directory, "vercel/sandbox/a.txt"))).toMatchObject({
      mode: 0o640,
      modifiedAt: +mtime,
    });
    expect(await files.stat(join(directory, "bin"))).toMatchObject({ mode: 0o2711, modifiedAt: +mtime });
    expect(await files.stat(join(directory, "bin/run"))).toMatchObject({ mode: 0o4755, modifiedAt: +mtime });
    expect(await fs.readlink(join(directory, "bin/link"))).toBe("/etc/passwd");
    expect((await fs.stat(join(directory, "bin/same"))).ino).toBe((await fs.stat(join(directory, "bin/run"))).ino);
    expect((await files.stat(join(directory, "pipe"))).type).toBe("fifo");
    expect((await files.stat(join(directory, "closed"))).mode).toBe(0o500);
    expect(await fs.readFile(join(directory, "closed/in"), "utf8")).toBe("1");
    expect(await fs.readFile(join(directory, "long/".repeat(60), "name"), "utf8")).toBe("deep");
    expect(await fs.readdir(directory)).toContain("h\u00e4.txt");
  });

  test("unpacks what tar(1) packs", async () => {
    const source = await tempDir();
    await fs.mkdir(join(source, "d"));
    await fs.writeFile(join(source, "d/f"), "x".repeat(100_000));
    await fs.link(join(source, "d/f"), join(source, "g"));
    for (const format of ["gnu", "pax", "ustar"]) {
      const { stdout } = await run("tar", ["-C", source, `--format=${format}`, "-cz", "."], {
        encoding: "buffer",
        maxBuffer: 1 << 24,
      });
      const target = await tempDir();
      await files.extract(target, pieces(stdout));
      expect(await names(target)).toEqual(["d", "d/f", "g"]);
      expect((await fs.stat(join(target, "g"))).nlink).toBe(2);
    }
  });

  test("replaces old files with new ones, whatever their type", async () => {
    const directory = await tempDir();
    const outside = join(await tempDir(), "outside");
    await fs.writeFile(outside, "kept");
    await fs.symlink(outside, join(directory, "a"));
    await run("mkfifo", [join(directory, "b")]);
    await fs.writeFile(join(directory, "c"), "old");
    const tar = await tarOf(
      { name: "a", contents: "new" },
      { name: "b", contents: "new" },
      { name: "c", type: "symlink", linkname: "a" },
    );
    await files.extract(directory, pieces(tar));
    expect(await fs.readFile(outside, "utf8")).toBe("kept");
    expect(await fs.readFile(join(directory, "b"), "utf8")).toBe("new");
    expect(await fs.readFile(join(directory, "c"), "utf8")).toBe("new");
  });

  test("writes through existing symlinks, and leaves existing directories unchanged", async () => {
    const directory = await tempDir();
    await fs.mkdir(join(directory, "usr/lib"), { recursive: true, mode: 0o755 });
    await fs.symlink("usr/lib", join(directory, "lib"));
    const tar = await tarOf({ name: "lib/", type: "directory", mode: 0o700 }, { name: "lib/x", contents: "1" });
    await files.extract(directory, pieces(tar));
    expect(await fs.readFile(join(directory, "usr/lib/x"), "utf8")).toBe("1");
    expect((await fs.stat(join(directory, "usr/lib"))).mode & 0o777).toBe(0o755);
  });

  test("many small files are unpacked without waiting for each", async () => {
    const directory = await tempDir();
    const members = Array.from({ length: 3000 }, (_, i) => ({ name: `d${i % 10}/${i}`, contents: `${i}` }));
    await files.extract(directory, pieces(await tarOf(...members), 64 << 10));
    expect((await names(directory)).length).toBe(3010);
    expect(await fs.readFile(join(directory, "d7/2997"), "utf8")).toBe("2997");
  });

  test("a plain user owns the unpacked files, and gets no setuid bit of other users", async () => {
    const plain = await startFileGuest(guest.program, { user: { uid: 65_534, gid: 65_534 } });
    onTestFinished(() => plain.stop());
    const directory = await tempDir();
    await fs.chmod(directory, 0o777);
    const tar = await tarOf({ name: "x", contents: "1", mode: 0o4755, uid: 0, gid: 0 });
    await filesOver(plain.connect).extract(join(directory, "t"), pieces(tar));
    expect(await fs.stat(join(directory, "t/x"))).toMatchObject({ uid: 65_534, mode: 0o104755 });
  });
});

describe("an archive that is hostile or broken", () => {
  const sentences: [string, string, Member[]][] = [
    ["..", 'invalid: Cannot extract "a/../../x": its path has ".." in it', [{ name: "a/../../x", contents: "1" }]],
    ["an absolute name", 'invalid: Cannot extract "/x": its path is absolute', [{ name: "/x", contents: "1" }]],
    [
      "a file below its own symlink",
      'invalid: Cannot extract "l/x": it is below a symlink of the archive',
      [
        { name: "l", type: "symlink", linkname: "OUTSIDE" },
        { name: "l/x", contents: "1" },
      ],
    ],
    [
      "a file below a link to its own symlink",
      'invalid: Cannot extract "m/n/x": it is below a symlink of the archive',
      [
        { name: "l", type: "symlink", linkname: "OUTSIDE" },
        { name: "m/n", type: "link", linkname: "./l" },
        { name: "m//n/x", contents: "1" },
      ],
    ],
    [
      "a directory over its own symlink",
      'invalid: Cannot extract "l/": the archive made a symlink of that name',
      [
        { name: "l", type: "symlink", linkname: "OUTSIDE" },
        { name: "l/", type: "directory" },
      ],
    ],
    [
      "a link out of the directory",
      'invalid: Cannot extract "l": its path has ".." in it',
      [{ name: "l", type: "link", linkname: "../../etc/passwd" }],
    ],
    [
      "a link through its own symlink",
      'invalid: Cannot extract "h": it is below a symlink of the archive',
      [
        { name: "l", type: "symlink", linkname: "OUTSIDE" },
        { name: "h", type: "link", linkname: "l/secret" },
      ],
    ],
    [
      "a device node",
      'invalid: Cannot extract "d": device nodes are not allowed',
      [{ name: "d", type: "block-device", devmajor: 8, devminor: 0 }],
    ],
    [
      "a whiteout outside a layer",
      'invalid: Cannot extract "w": device nodes are not allowed',
      [{ name: "w", type: "character-device", devmajor: 0, devminor: 0 }],
    ],
    ["a file without a name", 'invalid: Cannot extract "./.": it has no name', [{ name: "./.", contents: "1" }]],
  ];
  test.each(sentences)(
    "with %s is refused with a clear error, and writes nothing outside",
    async (_what, sentence, members) => {
      const parent = await tempDir();
      const outside = await tempDir();
      await fs.writeFile(join(outside, "secret"), "");
      const tar = await tarOf(
        ...members.map((member) => (member.linkname === "OUTSIDE" ? { ...member, linkname: outside } : member)),
      );
      expect((await refusal(files.extract(join(parent, "t"), pieces(tar)))).replaceAll("m//n", "m/n")).toBe(sentence);
      expect(await fs.readdir(outside)).toEqual(["secret"]);
      expect(await fs.readdir(parent)).toEqual(["t"]);
    },
  );

  test("with a file in the place of its own symlink replaces the symlink", async () => {
    const directory = await tempDir();
    const outside = join(await tempDir(), "outside");
    await fs.writeFile(outside, "kept");
    const tar = await tarOf({ name: "l", type: "symlink", linkname: outside }, { name: "l", contents: "new" });
    await files.extract(directory, pieces(tar));
    expect(await fs.readFile(outside, "utf8")).toBe("kept");
    expect(await fs.readFile(join(directory, "l"), "utf8")).toBe("new");
  });

  test.each([
    ["cut off in a file", async () => (await tarOf({ name: "f", contents: "x".repeat(5000) })).subarray(0, 3000)],
    ["cut off in a header", async () => (await tarOf({ name: "f", contents: "x" })).subarray(0, 300)],
    ["of text", async () => Buffer.from("this is no tar file at all\n".repeat(100))],
    ["with a wrong checksum", async () => (await tarOf({ name: "f", contents: "x" })).fill("9", 100, 104)],
    ["with a length of 5 GB and no data", async () => rawHeader("f", (5 * 2 ** 30).toString(8))],
    ["with a length that is no number", async () => rawHeader("f", "-7777777777")],
    ["with cut off gzip", async () => gzipSync(await tarOf({ name: "f", contents: "x".repeat(5000) })).subarray(0, 60)],
    ["with broken gzip", async () => gzipSync(await tarOf({ name: "f", contents: "x" })).fill(0xaa, 15)],
  ])("%s is refused with a clear error, and leaves no partial file", async (_what, make) => {
    const directory = await tempDir();
    expect(await refusal(files.extract(directory, pieces(await make())))).toMatch(
      /^invalid: Cannot (extract|decompress) the /,
    );
    expect(await fs.readdir(directory)).toEqual([]);
  });

  test("whose source fails gives the source's own error", async () => {
    const tar = await tarOf({ name: "f", contents: "x".repeat(5000) });
    async function* broken() {
      yield tar.subarray(0, 2000);
      throw new Error("the upload broke off");
    }
    await expect(files.extract(await tempDir(), broken())).rejects.toThrow("the upload broke off");
    await expect(files.extract(await tempDir(), pieces(gzipSync(tar).subarray(0, 0)))).resolves.toBeUndefined();
  });

  test("that does not fit on the disk gives that error", async () => {
    const directory = await tempDir();
    await run("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", directory]);
    onTestFinished(async () => void (await run("umount", ["--lazy", directory])));
    const tar = await tarOf({ name: "f", contents: "x".repeat(1 << 20) });
    expect(await refusal(files.extract(directory, pieces(tar)))).toMatch(/^limit: Cannot write .*no space/);
  });
});

describe("archive", () => {
  test("unpacks to the same tree with tar(1)", async () => {
    const source = await tempDir();
    await fs.mkdir(join(source, "d/empty"), { recursive: true });
    await fs.writeFile(join(source, "d/f"), "contents", { mode: 0o751 });
    await fs.writeFile(join(source, "none"), "", { mode: 0o644 });
    await fs.chmod(join(source, "none"), 0);
    await fs.link(join(source, "d/f"), join(source, "same"));
    await fs.symlink("../somewhere", join(source, "d/l"));
    await fs.utimes(join(source, "d/f"), 1, 1_234_567_890);
    await fs.writeFile(join(source, `${"n".repeat(200)}\u00e4`), "long");
    const target = await tempDir();
    const archive = join(await tempDir(), "a.tgz");
    await fs.writeFile(archive, files.archive(source, { gzip: true }));
    await run("tar", ["-C", target, "-xzpf", archive]);
    expect(await names(target)).toEqual(await names(source));
    expect(await fs.stat(join(target, "d/f"))).toMatchObject({ mode: 0o100751, nlink: 2, mtimeMs: 1_234_567_890_000 });
    expect((await fs.stat(join(target, "none"))).mode).toBe(0o100000);
    expect(await fs.readlink(join(target, "d/l"))).toBe("../somewhere");
  });

  test("of a file contains that file under its name", async () => {
    const path = join(await tempDir(), "a.txt");
    await fs.writeFile(path, "hello");
    const target = await tempDir();
    await files.extract(target, files.archive(path));
    expect(await fs.readFile(join(target, "a.txt"), "utf8")).toBe("hello");
  });

  test("of a file that grows or shrinks meanwhile is still a whole tar", async () => {
    const source = await tempDir();
    await fs.writeFile(join(source, "f"), Buffer.alloc(8 << 20, 1));
    await fs.writeFile(join(source, "g"), "after");
    const stream = files.archive(source);
    const chunks: Buffer[] = [];
    for await (const chunk of stream) {
      if (chunks.length === 0) await fs.truncate(join(source, "f"), 1000);
      chunks.push(chunk);
    }
    const target = await tempDir();
    await files.extract(target, pieces(Buffer.concat(chunks), 64 << 10));
    expect((await fs.stat(join(target, "f"))).size).toBe(8 << 20);
    expect(await fs.readFile(join(target, "g"), "utf8")).toBe("after");
  });

  test("of a missing path is an error, also through gzip", async () => {
    expect(await refusal(files.archive("/nowhere").toArray())).toMatch(/^not-found: Cannot walk "\/nowhere"/);
    expect(await refusal(files.archive("/nowhere", { gzip: true }).toArray())).toMatch(/^not-found: /);
  });

  test("that is not read to its end ends the walk", async () => {
    const source = await tempDir();
    await fs.writeFile(join(source, "big"), Buffer.alloc(16 << 20));
    const stream = files.archive(source, { gzip: true });
    await stream[Symbol.asyncIterator]().next();
    stream.destroy();
    expect(stream.destroyed).toBe(true);
  });
});

describe("a layer", () => {
  async function layerAt(directory: string) {
    const layer = await startFileGuest(guest.program, { root: directory, privileged: true });
    onTestFinished(() => layer.stop());
    const session = await layer.connect();
    onTestFinished(() => session.close());
    return session;
  }

  test("is restored from its archive with owners, whiteouts, attributes and times", async () => {
    const source = await tempDir();
    const target = await tempDir();
    await fs.mkdir(join(source, "d"), { mode: 0o1777 });
    await fs.chmod(join(source, "d"), 0o1777);
    await fs.writeFile(join(source, "d/f"), "1", { mode: 0o4755 });
    await fs.chown(join(source, "d/f"), 1000, 1001);
    await fs.chmod(join(source, "d/f"), 0o4755);
    await fs.symlink("f", join(source, "d/l"));
    await fs.lchown(join(source, "d/l"), 1000, 1000);
    await run("mknod", ["-m", "0", join(source, "gone"), "c", "0", "0"]);
    await run("mkfifo", [join(source, "pipe")]);
    await fs.utimes(join(source, "d"), 1, 4_000_000_000);
    await fs.chmod(source, 0o711);
    const from = await layerAt(source);
    const binary = Buffer.from([1, 0, 0, 2, 0x80, 0xff, 0, 10]);
    await from.setAttribute("/d", "trusted.overlay.opaque", Buffer.from("y"));
    await from.setAttribute("/d", "trusted.overlay.origin", Buffer.from([0, 0xfb]));
    await from.setAttribute("/d/f", "user.any", binary);
    await fs.utimes(join(source, "d"), 1, 4_000_000_000);
    const to = await layerAt(target);
    await extractTar(to, "/", archiveTar(from, "/", { layer: true }), { layer: true });
    const facts = async (session: typeof from) =>
      (await all(session.walk("/", { attributes: true })))
        .map(({ entry }) => ({ ...entry, links: 0, size: entry.type === "directory" ? 0 : entry.size }))
        .map((entry) => ({ ...entry, modifiedAt: entry.path === "d" ? entry.modifiedAt : 0 }))
        .map(({ accessedAt: _, changedAt: __, ...entry }) => entry)
        .map((entry) => ({ ...entry, attributes: entry.attributes.toSorted((a, b) => (a.name < b.name ? -1 : 1)) }))
        .sort((a, b) => (a.path < b.path ? -1 : 1));
    expect(await facts(to)).toEqual(await facts(from));
    const copied = (await facts(to)).find((entry) => entry.path === "d/f");
    expect(copied).toMatchObject({ mode: 0o4755, uid: 1000, attributes: [{ name: "user.any", value: binary }] });
  });

  test("of an OCI image has whiteouts in the overlay's format", async () => {
    const target = await tempDir();
    const session = await layerAt(target);
    const tar = await tarOf(
      { name: "etc/", type: "directory" },
      { name: "etc/.wh.passwd" },
      { name: "opt/.wh..wh..opq" },
      { name: "etc/ok", contents: "1", uid: 5, gid: 6, pax: { "SCHILY.xattr.user.x": "text" } },
    );
    await extractTar(session, "/", pieces(tar), { layer: true, oci: true });
    const steps = await all(session.walk("/", { attributes: true }));
    const entries = new Map(steps.map(({ entry }) => [entry.path, entry]));
    expect([...entries.keys()].sort()).toEqual(["", "etc", "etc/ok", "etc/passwd", "opt"]);
    expect(entries.get("etc/passwd")).toMatchObject({ type: "character-device", major: 0, minor: 0 });
    expect(entries.get("opt")?.attributes).toEqual([{ name: "trusted.overlay.opaque", value: Buffer.from("y") }]);
    expect(entries.get("etc/ok")).toMatchObject({ uid: 5, gid: 6, attributes: [{ name: "user.x" }] });
  });

  test("holds no device but whiteouts, and no attribute but a layer's", async () => {
    const session = await layerAt(await tempDir());
    const device = await tarOf({ name: "sda", type: "block-device", devmajor: 8, devminor: 0 });
    expect(await refusal(extractTar(session, "/", pieces(device), { layer: true }))).toMatch(
      /^invalid: .*device nodes/,
    );
    const attribute = await tarOf({ name: "f", contents: "1", pax: { "SCHILY.xattr.security.selinux": "x" } });
    await extractTar(session, "/", Readable.from([attribute]), { layer: true });
    expect((await session.stat("/f")).size).toBe(1);
  });
});
