/** Tests of bootstrap's view of the host: a wrong one installs too much, or lets a start fail later. */

import { globSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import { root, tempDir } from "../test/harness/harness.ts";
import { type HostNeed, hostNeeds, missing } from "./host-needs.mjs";

const row = { package: "some-package", why: "is needed by this test", when: "run" } as const;

test("every need is either a command or a file", () => {
  expect(hostNeeds.filter(({ command, file }) => (command === undefined) === (file === undefined))).toEqual([]);
});

test("every program that a test demands is in the table, or in every Debian", () => {
  const every = ["sh", "dpkg", "setpriv"];
  const rows = hostNeeds.flatMap(({ command, file, package: name }) => [command, file && basename(file), name]);
  const demanded = globSync("{src,test,guest,scripts}/**/*.ts", { cwd: root })
    .filter((path) => !/^test\/runner\/needs\.|^scripts\//.test(path))
    .flatMap((path) => [...readFileSync(join(root, path), "utf8").matchAll(/"the command ([\w.-]+)"/g)])
    .map(([, command = ""]) => command);
  expect(demanded).toContain("tcpdump");
  expect(demanded.filter((command) => !every.includes(command) && !rows.includes(command))).toEqual([]);
});

test("a command that is on PATH is not missing, another is", () => {
  const unknown: HostNeed = { ...row, command: "no-such-command" };
  expect(missing(["run"], [{ ...row, command: "sh" }, unknown])).toEqual([unknown]);
});

test("a file is missing until it exists at exactly its path", async () => {
  const need = { ...row, file: join(await tempDir(), "tool") };
  expect(missing(["run"], [need])).toEqual([need]);
  await writeFile(need.file, "");
  expect(missing(["run"], [need])).toEqual([]);
});

test("a star in a file's name matches a part of a name, a dot only a dot", async () => {
  const directory = await tempDir();
  await mkdir(join(directory, "llvm-14"));
  await writeFile(join(directory, "llvm-14", "fuzzer-x64.a"), "");
  const found = { ...row, file: join(directory, "llvm-*/fuzzer-*.a") };
  const wrongFolder = { ...row, file: join(directory, "gcc-*/fuzzer-*.a") };
  const wrongEnding = { ...row, file: join(directory, "llvm-*/fuzzer-x6.*.a") };
  expect(missing(["run"], [found, wrongFolder, wrongEnding])).toEqual([wrongFolder, wrongEnding]);
});

test("a program that only benchmarks need is not missing for a run", () => {
  const need: HostNeed = { ...row, command: "no-such-command", when: "bench" };
  expect(missing(["run", "test"], [need])).toEqual([]);
  expect(missing(["run", "bench"], [need])).toEqual([need]);
});
