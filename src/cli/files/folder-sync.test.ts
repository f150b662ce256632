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
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { applyChanges } from "./folder-sync.ts";

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
  await writeFile(join(to, "mine"), "made here meanwhile");
  const before = ["link", "old", "old/file", "src", "src/mode", "src/same"];
  expect(await applyChanges(from, to, before)).toEqual({ written: 3, removed: 2, skipped: [] });
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
  expect(await applyChanges(from, to, ["sparse"])).toEqual({ written: 1, removed: 0, skipped: [] });
  expect((await readFile(join(to, "sparse"))).at(-1)).toBe(1);
  expect((await stat(join(to, "sparse"))).blocks * 512).toBeLessThan(1 << 20);
  expect(await applyChanges(from, to, ["sparse"])).toEqual({ written: 0, removed: 0, skipped: [] });
});

test("an abort brings nothing more back", async () => {
  const [from, to] = [await folder(), await folder()];
  await writeFile(join(from, "new"), "new");
  await expect(applyChanges(from, to, [], AbortSignal.abort())).rejects.toThrow(/abort/);
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
  await writeFile(join(to, "full/mine"), "mine");
  await symlink("/", join(from, "full"));
  expect(await applyChanges(from, to, ["door", "file", "full"])).toEqual({ written: 3, removed: 0, skipped: ["full"] });
  expect(await readdir(outside)).toEqual(["victim"]);
  expect(await readFile(join(outside, "victim"), "utf8")).toBe("untouched");
  expect(await readFile(join(to, "door/file"), "utf8")).toBe("x");
  expect((await readdir(to)).sort()).toEqual(["door", "file", "full"]);
  expect(await readdir(join(to, "door"))).toEqual(["file"]);
  await expect(readlink(join(to, "full"))).rejects.toThrow();
});
