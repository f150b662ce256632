/** Tests of the changes of a folder that come back from a sandbox: what is written, and what hostile ones cannot do. */

import {
  chmod,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { applyChanges, treeOf } from "./folder-sync.ts";

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "sandkeep-changes-"));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

test("only what differs is written, and what was deleted goes", async () => {
  const [from, to] = [await folder(), await folder()];
  for (const place of [from, to]) {
    await mkdir(join(place, "src"));
    await writeFile(join(place, "src/same"), "same");
    await writeFile(join(place, "src/mode"), "x");
    await symlink("src/same", join(place, "link"));
  }
  const { mtimeMs } = await stat(join(to, "src/same"));
  await chmod(join(from, "src/mode"), 0o755);
  await mkdir(join(from, "new"));
  await writeFile(join(from, "new/file"), "new");
  await mkdir(join(to, "old"));
  await writeFile(join(to, "old/file"), "old");
  const before = { tree: await treeOf(to), at: Date.now() };
  await writeFile(join(to, "mine"), "made here meanwhile");
  expect(await applyChanges(from, to, before)).toEqual({ written: 3, removed: 2, skipped: [], kept: [] });
  expect((await readdir(to)).sort()).toEqual(["link", "mine", "new", "src"]);
  expect((await stat(join(to, "src/mode"))).mode & 0o777).toBe(0o755);
  expect((await stat(join(to, "src/same"))).mtimeMs).toBe(mtimeMs);
  expect(await readFile(join(to, "new/file"), "utf8")).toBe("new");
});

test("a file keeps its holes, and one of the same size that differs is written", async () => {
  const [from, to] = [await folder(), await folder()];
  for (const [place, byte] of [
    [from, 1],
    [to, 2],
  ] as const) {
    await using file = await open(join(place, "sparse"), "w", 0o644);
    await file.write(Buffer.of(byte), 0, 1, (32 << 20) - 1);
  }
  const before = { tree: await treeOf(to), at: Date.now() };
  expect(await applyChanges(from, to, before)).toEqual({ written: 1, removed: 0, skipped: [], kept: [] });
  expect((await readFile(join(to, "sparse"))).at(-1)).toBe(1);
  expect((await stat(join(to, "sparse"))).blocks * 512).toBeLessThan(1 << 20);
  expect(await applyChanges(from, to, before)).toEqual({ written: 0, removed: 0, skipped: [], kept: [] });
});

test("what was changed here meanwhile stays, and is named if it was changed on both sides", async () => {
  const [from, to] = [await folder(), await folder()];
  const names = ["here", "both", "deleted-here", "deleted-there", "inside", "twice-deleted"];
  for (const place of [from, to])
    for (const name of names) {
      await writeFile(join(place, name), "before", { mode: 0o644 });
      await utimes(join(place, name), 1e9, place === to ? 1e9 + 0.25 : 1e9);
    }
  const before = { tree: await treeOf(to), at: Date.now() };
  for (const name of ["here", "both", "deleted-there", "added", "taken"])
    await writeFile(join(to, name), "changed here");
  for (const name of ["both", "inside", "added"]) await writeFile(join(from, name), "changed inside");
  await mkdir(join(from, "taken"));
  await writeFile(join(from, "taken/file"), "x");
  for (const place of [join(to, "deleted-here"), join(from, "deleted-there")]) await rm(place);
  for (const place of [from, to]) await rm(join(place, "twice-deleted"));
  const kept = ["deleted-there", "added", "both", "taken"];
  expect(await applyChanges(from, to, before)).toEqual({ written: 1, removed: 0, skipped: [], kept });
  expect((await readdir(to)).sort()).toEqual(["added", "both", "deleted-there", "here", "inside", "taken"]);
  for (const name of ["here", "both", "deleted-there", "added", "taken"])
    expect(await readFile(join(to, name), "utf8")).toBe("changed here");
  expect(await readFile(join(to, "inside"), "utf8")).toBe("changed inside");
  // The time of a file that is as old as the copy says nothing.
  const late = { ...before, at: 1e12 + 500 };
  expect((await applyChanges(from, to, late)).kept).toEqual(["deleted-there", "added", "both", "here", "taken"]);
});

test("an abort brings nothing more back", async () => {
  const [from, to] = [await folder(), await folder()];
  await writeFile(join(from, "new"), "new");
  await expect(applyChanges(from, to, { tree: new Map(), at: 0 }, AbortSignal.abort())).rejects.toThrow(/abort/);
  expect(await readdir(to)).toEqual([]);
});

test("nothing is written through a symlink, into .git, or over files that were not copied in", async () => {
  const [from, to, outside] = [await folder(), await folder(), await folder()];
  await symlink(outside, join(to, "door"));
  await mkdir(join(from, "door"));
  await writeFile(join(from, "door/file"), "x");
  await writeFile(join(outside, "victim"), "untouched");
  await symlink(join(outside, "victim"), join(to, "file"));
  await writeFile(join(from, "file"), "x");
  await mkdir(join(from, ".git/hooks"), { recursive: true });
  await writeFile(join(from, ".git/hooks/pre-commit"), "bad");
  await mkdir(join(from, "door/.git"));
  await writeFile(join(from, "door/.git/config"), "bad");
  await mkdir(join(to, "full"));
  const before = { tree: await treeOf(to), at: Date.now() };
  await writeFile(join(to, "full/mine"), "mine");
  await symlink("/", join(from, "full"));
  const changes = await applyChanges(from, to, before);
  expect(changes).toEqual({ written: 3, removed: 0, skipped: ["full"], kept: [] });
  expect(await readdir(outside)).toEqual(["victim"]);
  expect(await readFile(join(outside, "victim"), "utf8")).toBe("untouched");
  expect(await readFile(join(to, "door/file"), "utf8")).toBe("x");
  expect((await readdir(to)).sort()).toEqual(["door", "file", "full"]);
  expect(await readdir(join(to, "door"))).toEqual(["file"]);
  await expect(readlink(join(to, "full"))).rejects.toThrow();
});
