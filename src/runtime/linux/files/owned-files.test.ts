/** Files that root makes for another user, and lists of several levels, against the guest's real file code. */

import * as fs from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { refusal, useFileGuest } from "../../../../test/harness/guest/file-guest.ts";
import { tempDir } from "../../../../test/harness/harness.ts";
import { filesOver } from "./files.ts";

const guest = useFileGuest();
const files = filesOver(guest.connect);
const owner = { uid: 1000, gid: 1001 };

async function owners(...paths: string[]): Promise<string[]> {
  const facts = await Promise.all(paths.map((path) => fs.lstat(path)));
  return facts.map(({ uid, gid }) => `${uid}:${gid}`);
}

test("new parent directories belong to the owner, and existing ones keep theirs", async () => {
  const root = await tempDir();
  const at = (...names: string[]) => join(root, ...names);
  await fs.mkdir(at("there"));
  await files.write(at("there", "a", "b", "file"), Buffer.from("1"), { parents: true, owner });
  await files.mkdir(at("there", "c", "d"), { recursive: true, owner });
  await files.move(at("there", "a", "b", "file"), at("there", "e", "moved"), { parents: true, owner });
  const made = ["a", "a/b", "c", "c/d", "e", "e/moved"].map((name) => at("there", name));
  expect(await owners(root, at("there"), ...made)).toEqual(["0:0", "0:0", ...Array(6).fill("1000:1001")]);
  await files.write(at("there", "e", "moved"), Buffer.from("2"), { parents: true, owner: { uid: 0, gid: 0 } });
  expect(await owners(at("there", "e", "moved"))).toEqual(["0:0"]);
});

test("a move of a missing file makes no directories, and a file cannot be a parent", async () => {
  const root = await tempDir();
  const move = files.move(join(root, "none"), join(root, "new/place"), { parents: true, owner });
  expect(await refusal(move)).toMatch(/^not-found: /);
  await fs.writeFile(join(root, "file"), "");
  const write = files.write(join(root, "file/below"), Buffer.from("1"), { parents: true, owner });
  expect(await refusal(write)).toMatch(/^invalid: /);
  expect(await fs.readdir(root)).toEqual(["file"]);
});

test("a list has the requested depth, directories before their content, and follows no symlink", async () => {
  const root = await tempDir();
  await fs.mkdir(join(root, "b/c/d"), { recursive: true });
  await fs.writeFile(join(root, "a"), "");
  await fs.writeFile(join(root, "b/x"), "");
  await fs.symlink("b", join(root, "link"));
  await fs.symlink("/nowhere", join(root, "z"));
  const names = async (depth: number) =>
    (await files.list(root, { depth })).map(({ path }) => path.slice(root.length + 1));
  expect((await names(1)).sort()).toEqual(["a", "b", "link", "z"]);
  expect(await names(2)).toEqual(["a", "b", "b/c", "b/x", "link", "z"]);
  expect(await names(100)).toEqual(["a", "b", "b/c", "b/c/d", "b/x", "link", "z"]);
  expect(await files.list(root, { depth: 100, most: 7 })).toHaveLength(7);
  expect(await refusal(files.list(root, { depth: 100, most: 6 }))).toMatch(/^limit: .*it holds more than 6 files$/);
  const links = (await files.list(root, { links: true })).filter(({ type }) => type === "symlink");
  expect(links.map(({ targetType }) => targetType).sort()).toEqual(["directory", undefined]);
  expect(await files.stat(join(root, "link"), { follow: false, links: true })).toMatchObject({
    targetType: "directory",
  });
});

test("a list that would fill the daemon's memory is refused", async () => {
  const root = await tempDir();
  for (let n = 0; n < 4200; n++) await fs.symlink("x".repeat(4000), join(root, `${n}`));
  expect(await refusal(files.list(root))).toMatch(/^limit: .*it holds too many files$/);
});
