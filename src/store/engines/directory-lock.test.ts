/** The lock of a data directory. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { lockDirectory } from "./directory-lock.ts";

const holding = `
  const { lockDirectory } = await import(${JSON.stringify(join(import.meta.dirname, "directory-lock.ts"))});
  lockDirectory(process.argv[1]);
  gc();
  console.log("locked");
  setInterval(() => undefined, 60_000);`;

test("a directory that another process has is refused, under whatever name, until that process dies", async () => {
  const directory = await tempDir();
  const other = await holder(directory);
  const alias = join(await tempDir(), "alias");
  symlinkSync(directory, alias);
  for (const path of [directory, alias, join(directory, "."), `${directory}/`]) {
    expect(() => lockDirectory(path)).toThrow(`Cannot serve "${path}": another daemon uses it (process ${other.pid})`);
  }
  other.kill("SIGKILL");
  await once(other, "exit");
  lockDirectory(alias)();
});

test("a lock whose file is damaged is refused with its name, and how to go on", async () => {
  const directory = await tempDir();
  const path = join(directory, "daemon.lock");
  writeFileSync(path, "not what it was");
  const why = `Cannot lock "${path}": file is not a database; nothing is stored in it: end every daemon`;
  expect(() => lockDirectory(directory)).toThrow(why);
});

test("what is given back can be taken again, and only its owner can open it", async () => {
  const directory = await tempDir();
  const release = lockDirectory(directory);
  expect(statSync(join(directory, "daemon.lock")).mode & 0o777).toBe(0o600);
  release();
  const other = await holder(directory);
  expect(() => lockDirectory(directory)).toThrow(/another daemon/);
  other.kill();
});

async function holder(directory: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, ["--expose-gc", "--input-type=module", "-e", holding, directory], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(createInterface(child.stdout), "line");
  return child;
}
