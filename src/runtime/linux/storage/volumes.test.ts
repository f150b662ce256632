/** Deleting the folder of a machine: here if it is small and plain, otherwise by the guest. */

import { existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import type { Launcher } from "../guest-wire/launcher.ts";
import { Volumes } from "./volumes.ts";

/** a machine's folder, and the paths that the guest was asked to delete */
async function fixture() {
  const root = await tempDir();
  const folder = join(root, "machine");
  mkdirSync(join(folder, "journal"), { recursive: true });
  writeFileSync(join(folder, "machine.json"), "{}");
  writeFileSync(join(folder, "journal/cmd_1.info"), "");
  const asked: string[] = [];
  const launcher = {
    filesAt: async (directory: string) => ({
      remove: async (path: string) => void asked.push(join(directory, path)),
      close: () => undefined,
    }),
  } as unknown as Launcher; // a deletion uses nothing else of it
  const plan = { folder, volume: join(folder, "volume"), egressLog: join(root, "egress"), spare: join(root, "spare") };
  return { root, folder, asked, remove: () => new Volumes(launcher, false).deleteFolder(plan) };
}

test("a folder of files is deleted without the guest, and links in it are not followed", async () => {
  const { root, folder, asked, remove } = await fixture();
  mkdirSync(join(root, "kept"));
  writeFileSync(join(root, "kept/file"), "");
  symlinkSync(join(root, "kept"), join(folder, "journal/link"));
  await remove();
  expect([existsSync(folder), existsSync(join(root, "kept/file"))]).toEqual([false, true]);
  expect(asked).toEqual([]);
});

test.each([
  ["a tree of folders", (folder: string) => mkdirSync(join(folder, "journal/a/b"), { recursive: true })],
  [
    "many files",
    (folder: string) => {
      for (let file = 0; file < 100; file++) writeFileSync(join(folder, `journal/${file}`), "");
    },
  ],
])("%s in it are left to the guest, which can delete any of them", async (_, add) => {
  const { folder, asked, remove } = await fixture();
  add(folder);
  await remove();
  expect(asked.map((path) => basename(path))).toEqual([basename(folder)]);
});

test("a folder that is gone already is no error", async () => {
  const { remove } = await fixture();
  await remove();
  await remove();
});
