/** Writing into a directory of the host: owners, modes, links, and when a file is hard-linked instead of copied. */

import { chmod, lstat, mkdir, readFile, readlink, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { needs } from "../../../../test/runner/needs.ts";
import { plainUser } from "./layer-writer.ts";
import { copyTree } from "./tree-copy.ts";
import { TreeWriter } from "./tree-writer.ts";

test("a tree is copied with directories of the owner that was asked for, programs as programs and links as links", async (context) => {
  needs(context, "root");
  const [from, to] = [await tempDir(), await tempDir()];
  await mkdir(join(from, "bin"), { recursive: true });
  for (const name of ["bin/run", "install.sh", "read.me"]) await writeFile(join(from, name), name, { mode: 0o600 });
  await symlink("../read.me", join(from, "bin/link"));
  await copyTree(new TreeWriter(to), from, "/package", { owner: plainUser });
  const modes = await Promise.all(
    ["", "bin", "bin/run", "install.sh", "read.me"].map(async (name) => {
      const { uid, gid, mode } = await lstat(join(to, "package", name));
      return [uid, gid, (mode & 0o7777).toString(8)];
    }),
  );
  expect(modes).toEqual([
    [1000, 1000, "755"],
    [1000, 1000, "755"],
    [0, 0, "755"],
    [0, 0, "755"],
    [0, 0, "644"],
  ]);
  expect(await readFile(join(to, "package/bin/run"), "utf8")).toBe("bin/run");
  expect(await readlink(join(to, "package/bin/link"))).toBe("../read.me");
});

test("a file is hard-linked instead of copied only if it has the right owner and mode", async (context) => {
  needs(context, "root");
  const [from, to] = [await tempDir(), await tempDir()];
  const writer = new TreeWriter(to);
  const program = join(from, "program");
  await writeFile(program, "program");
  const isSame = async (name: string) => (await stat(join(to, name))).ino === (await stat(program)).ino;
  await chmod(program, 0o755);
  await writer.copyFile(program, "/same", { mode: 0o755 });
  expect(await isSame("same")).toBe(true);
  await writer.copyFile(program, "/owned", { mode: 0o755, owner: plainUser });
  await chmod(program, 0o775);
  await writer.copyFile(program, "/closed", { mode: 0o755 });
  expect(await Promise.all(["owned", "closed"].map(isSame))).toEqual([false, false]);
  expect((await stat(join(to, "closed"))).mode & 0o7777).toBe(0o755);
  // over an existing file, as programs of a package are written
  await chmod(program, 0o755);
  await writer.copyFile(program, "/closed", { mode: 0o755 });
  expect(await isSame("closed")).toBe(false);
});

test("writing to a name that is a hard link does not change the original", async (context) => {
  needs(context, "root");
  const [from, to] = [await tempDir(), await tempDir()];
  const writer = new TreeWriter(to);
  const original = join(from, "original");
  await writeFile(original, "original", { mode: 0o644 });
  for (const name of ["/copied", "/written"]) await writer.copyFile(original, name, { mode: 0o644 });
  await writer.copyFile(original, "/copied", { mode: 0o755, owner: plainUser });
  await writer.file("/written", "other", { owner: plainUser });
  expect(await readFile(original, "utf8")).toBe("original");
  const { uid, mode } = await stat(original);
  expect([uid, mode & 0o7777]).toEqual([0, 0o644]);
  expect(await readFile(join(to, "copied"), "utf8")).toBe("original");
  expect((await stat(join(to, "copied"))).mode & 0o7777).toBe(0o755);
});
