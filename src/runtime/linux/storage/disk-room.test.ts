/** The reserve on a disk, on small file systems in memory. */

import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { eventually, tempDir } from "../../../../test/harness/harness.ts";
import { demand } from "../../../../test/runner/needs.ts";
import { DiskRoom } from "./disk-room.ts";

const mebibyte = 2 ** 20;

test("a start on a disk without room fails with an error that says how much to free", async () => {
  const dataDir = await disk("1m");
  expect(() => DiskRoom.makeStartable({ dataDir, reserve: 64 * mebibyte })).toThrow(
    `Cannot serve "${dataDir}": its disk has 1 MiB left. Free at least 64 MiB there and start again`,
  );
  DiskRoom.makeStartable({ dataDir: await disk("16m"), reserve: 64 * mebibyte });
});

test("growth is refused below the reserve and allowed a quarter above it; each change is reported once", async () => {
  const dataDir = await disk("100m");
  const said: string[] = [];
  const room = await DiskRoom.open({ dataDir, reserve: 40 * mebibyte, say: (sentence) => void said.push(sentence) });
  onTestFinished(() => room.close());
  room.require("start a sandbox");
  expect(room.places).toMatchObject([{ place: "disk", total: 100 * mebibyte, free: 100 * mebibyte }]);
  writeFileSync(join(dataDir, "a"), Buffer.alloc(55 * mebibyte));
  writeFileSync(join(dataDir, "b"), Buffer.alloc(10 * mebibyte));
  await eventually("it is short", () => room.isShort);
  expect(() => room.require("start a sandbox")).toThrow(
    "Cannot start a sandbox: the host's disk has 35 MiB left, and 40 MiB are kept in reserve",
  );
  // 45 MiB are enough to go on, but too few to begin again.
  rmSync(join(dataDir, "b"));
  let looks = 0;
  room.attach(dataDir, async () => void looks++);
  await eventually("it has looked again", () => looks > 2);
  expect(room.isShort).toBe(true);
  rmSync(join(dataDir, "a"));
  await eventually("there is room", () => !room.isShort);
  expect(said).toEqual([expect.stringContaining("has only 35 MiB left"), expect.stringContaining("has room again")]);
});

async function disk(size: string): Promise<string> {
  demand("root");
  const directory = await tempDir();
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", directory]);
  onTestFinished(() => void execFileSync("umount", [directory]));
  return directory;
}
