/** Directories of settings: those that cannot be used are sentences, and nothing of them is left. */

import { existsSync, readdirSync, statSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../test/harness/harness.ts";
import { findCgroups } from "../runtime/linux/host/cgroup.ts";
import { places, planMachine } from "../runtime/linux/machines/plan.ts";
import {
  dataDirectory,
  longestRunDirectory,
  makeDirectory,
  requireUsedDirectory,
  runDirectory,
} from "./directories.ts";

test("a directory is made with those above it for its owner only, and undone where it is still empty", async () => {
  const parent = await tempDir();
  const path = join(parent, "a/b/c");
  const removeMade = makeDirectory(dataDirectory(path));
  expect(readdirSync(path)).toEqual([]);
  expect(statSync(path).mode & 0o777).toBe(0o700);
  await mkdir(join(parent, "a/kept"));
  removeMade();
  expect(readdirSync(join(parent, "a"))).toEqual(["kept"]);
});

test("a directory that was there before stays", async () => {
  const path = await tempDir();
  makeDirectory(runDirectory(path))();
  expect(existsSync(path)).toBe(true);
});

test("a file, and a path below a file, are refused with the setting that names them", async () => {
  const file = join(await tempDir(), "file");
  await writeFile(file, "");
  expect(() => makeDirectory(dataDirectory(file))).toThrow(
    `Cannot use the data directory "${file}": "${file}" is not a directory\nhint: --data-dir or SANDKEEP_DATA_DIR names another one`,
  );
  expect(() => makeDirectory(runDirectory(join(file, "x/y")))).toThrow(
    `Cannot use the run directory "${file}/x/y": "${file}" is not a directory\nhint: --run-dir or SANDKEEP_RUN_DIR names another one`,
  );
});

test.each(["/proc", "/proc/foo", "/proc/foo/bar"])("%s, where nothing can be made, is refused at once", (path) => {
  expect(() => makeDirectory(dataDirectory(path))).toThrow(`Cannot use the data directory "${path}": `);
});

test("a directory that no daemon has used is refused, and nothing is made in it", async () => {
  const path = await tempDir();
  const hint = "hint: --data-dir or SANDKEEP_DATA_DIR names another one";
  await writeFile(join(path, "notes.txt"), "");
  expect(() => requireUsedDirectory(dataDirectory(path), "recover")).toThrow(
    `Cannot recover "${path}": it is not a data directory, as it has none of identity.json, store.json, store.btrfs, ledger.jsonl\n${hint}`,
  );
  expect(readdirSync(path)).toEqual(["notes.txt"]);
  const missing = join(path, "missing");
  expect(() => requireUsedDirectory(dataDirectory(missing), "recover")).toThrow(
    `Cannot recover "${missing}": there is no such directory\n${hint}`,
  );
  await writeFile(join(path, "ledger.jsonl"), "");
  requireUsedDirectory(dataDirectory(path), "recover");
});

test("a run directory whose sockets the kernel would refuse is refused, and the longest that works is not", () => {
  const longest = `/${"ü".repeat((longestRunDirectory - 1) / 2)}`;
  expect(runDirectory(longest)).toMatchObject({ path: longest });
  expect(() => runDirectory(`${longest}/x`)).toThrow(
    `Cannot use the run directory "${longest}/x": its path has 71 bytes, and sockets in it can be used only up to 69\nhint: --run-dir or SANDKEEP_RUN_DIR names another one`,
  );
  const host = findCgroups("30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", () => "cpu memory pids");
  const at = places("/data", longest);
  const keeper = `${at.egress}.4194304`;
  const lengths = [planMachine(at, host, `m${"f".repeat(16)}`, 0).socket, keeper].map((path) =>
    Buffer.byteLength(path),
  );
  expect(Math.max(...lengths)).toBe(107);
});
