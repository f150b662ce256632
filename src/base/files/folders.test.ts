/** Folders that are made with those above them, and the errors of those that cannot be made. */

import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { smallDisk } from "../../../test/disks/small-disk.ts";
import { tempDir } from "../../../test/harness/harness.ts";
import { demand } from "../../../test/runner/needs.ts";
import { makeFolder, makeFolderSync, parentsOf } from "./folders.ts";

test("a folder is made with those above it, and one that exists is no error", async () => {
  const path = join(await tempDir(), "a/b/c");
  await Promise.all([makeFolder(path), makeFolder(path)]);
  makeFolderSync(path);
  makeFolderSync(join(path, "d"));
  expect(existsSync(join(path, "d"))).toBe(true);
});

test("the error is the kernel's own, not that the folder is missing", async () => {
  demand("root", "the command mkfs.ext4");
  const disk = await smallDisk({ defer: (undo) => onTestFinished(undo) }, 16 << 20);
  writeFileSync(join(disk.directory, "file"), "");
  execFileSync("mount", ["-o", "remount,ro", disk.directory]);
  for (const path of ["a", "a/b/c"].map((name) => join(disk.directory, name))) {
    await expect(makeFolder(path, 0o700)).rejects.toMatchObject({ code: "EROFS" });
    expect(() => makeFolderSync(path, 0o700)).toThrow(/^EROFS/);
  }
  expect(() => makeFolderSync(join(disk.directory, "file/below"))).toThrow(/^ENOTDIR/);
});

test("the folders above a relative path are listed from the top", () => {
  expect(parentsOf("a/b/c")).toEqual(["a", "a/b"]);
  expect(parentsOf("a")).toEqual([]);
});
