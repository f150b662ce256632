/** Tests of archives of a sandbox that are unpacked on this host: the files, and what hostile ones cannot do. */

import { chmod, mkdtemp, readdir, readFile, readlink, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type NewMember, TarWriter } from "../../base/tar/writer.ts";
import { packDirectory } from "./pack.ts";
import { unpack } from "./unpack.ts";

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "sandkeep-unpack-"));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

async function* tarOf(...members: (NewMember & { content?: string })[]) {
  const tar = new TarWriter();
  for (const { content = "", ...member } of members)
    yield* tar.small({ type: "file", ...member }, Buffer.from(content));
  yield* tar.end();
}

test("files, modes, symlinks and names that are no text come out as they went in", async () => {
  const [from, to] = [await folder(), await folder()];
  // Only root can empty a directory without this.
  onTestFinished(async () => {
    for (const path of [from, to]) await chmod(join(path, "bin"), 0o700);
  });
  await unpack(
    tarOf(
      { name: "bin", type: "directory", mode: 0o500 },
      { name: "bin/run", mode: 0o4755, content: "#!/bin/sh\n" },
      { name: "latest", type: "symlink", target: "bin/run" },
      { name: "same", type: "link", target: "bin/run" },
      { name: "caf\xe9", mode: 0o644, content: "x" },
      { name: "pipe", type: "fifo" },
    ),
    from,
  );
  const tar = new TarWriter();
  const again = async function* () {
    yield* packDirectory(tar, { directory: from });
    yield* tar.end();
  };
  expect(await unpack(again(), to)).toBe(0);
  expect((await stat(join(to, "bin/run"))).mode & 0o7777).toBe(0o755);
  expect((await stat(join(to, "bin"))).mode & 0o7777).toBe(0o500);
  expect(await readlink(join(to, "latest"))).toBe("bin/run");
  expect(await readFile(join(to, "same"), "utf8")).toBe("#!/bin/sh\n");
  expect(await readFile(Buffer.concat([Buffer.from(`${to}/caf`), Buffer.from([0xe9])]), "utf8")).toBe("x");
});

test("zeros are holes here, and every other byte is where it was", async () => {
  const [to, length] = [await folder(), 32 << 20];
  const content = Buffer.alloc(length);
  for (const at of [0, 4095, 4096, 10_000_000, length - 70_000]) content[at] = 7;
  const chunks = async function* () {
    // Pieces that begin and end in the middle of a block.
    for (let at = 0; at < length; at += 100_001) yield content.subarray(at, at + 100_001);
  };
  const tar = new TarWriter();
  const bytes = async function* () {
    yield* tar.member({ name: "sparse", type: "file", size: length }, chunks());
    yield* tar.end();
  };
  await unpack(bytes(), to);
  expect((await readFile(join(to, "sparse"))).equals(content)).toBe(true);
  expect((await stat(join(to, "sparse"))).blocks * 512).toBeLessThan(1 << 20);
});

test("a file that does not fit on the disk is refused before its content is read", async () => {
  const to = await folder();
  let read = 0;
  const tar = new TarWriter();
  const zeros = async function* () {
    for (; read < 10 << 20; read += 1 << 20) yield Buffer.alloc(1 << 20);
  };
  const member = tar.member({ name: "big", type: "file", size: 2 ** 47 }, zeros());
  await expect(unpack(member, to)).rejects.toThrow(/^Cannot write "big": it has 140\.7 TB, and the disk of ".+" has /);
  expect(read).toBeLessThan(5 << 20);
  expect(await readdir(to)).toEqual([]);
});

test("nothing is written outside of the directory", async () => {
  const outside = await folder();
  const victim = join(outside, "victim");
  await writeFile(victim, "untouched");
  const hostile: [string, Parameters<typeof tarOf>][] = [
    ["a name that leads up", [{ name: "../victim", content: "bad" }]],
    ["a name that leads up later", [{ name: "a/../../victim", content: "bad" }]],
    ["an absolute name", [{ name: victim, content: "bad" }]],
    [
      "a file below a symlink",
      [
        { name: "door", type: "symlink", target: outside },
        { name: "door/victim", content: "bad" },
      ],
    ],
    ["a hard link to a file outside", [{ name: "own", type: "link", target: "../victim" }]],
    [
      "a hard link through a symlink",
      [
        { name: "door", type: "symlink", target: outside },
        { name: "own", type: "link", target: "door/victim" },
      ],
    ],
  ];
  for (const [what, members] of hostile)
    await expect(unpack(tarOf(...members), await folder()), what).rejects.toThrow(/^Cannot unpack /);
  // A symlink is replaced, whether the archive or this host made it.
  const own = await folder();
  await symlink(victim, join(own, "here"));
  const members = [
    { name: "here", content: "new" },
    { name: "there", type: "symlink", target: victim },
    { name: "there", content: "new" },
  ] as const;
  await unpack(tarOf(...members), own);
  expect(await readFile(join(own, "here"), "utf8")).toBe("new");
  expect(await readFile(join(own, "there"), "utf8")).toBe("new");
  expect(await readFile(victim, "utf8")).toBe("untouched");
});
