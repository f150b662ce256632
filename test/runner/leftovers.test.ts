/** Tests that a run of tests that is killed leaves nothing on the host. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { beforeEach, expect, test } from "vitest";
import { root, tempDir } from "../harness/harness.ts";
import { expectNothingLeft } from "../harness/linux-host.ts";
import { mountsOf, processesOf, read } from "../harness/traces.ts";
import { clearLeftovers } from "./leftovers.ts";
import { needs } from "./needs.ts";

beforeEach((context) => needs(context, "root"));

/** a process of a run that has a running machine, a paused one and a program beside them, and prints its data directory */
const program = `
  import { spawn } from "node:child_process";
  import { withRuntime } from "${join(root, "test/harness/machine.ts")}";
  const { boot, directory } = await withRuntime(new AsyncDisposableStack());
  await boot();
  await (await boot()).pause();
  spawn("sleep", ["1000"], { detached: true, stdio: "ignore" });
  console.log(directory);
`;

/** the process and its data directory, once it has all that */
async function begin(run: string): Promise<{ child: ChildProcess; directory: string }> {
  const child = spawn(process.execPath, ["--input-type=module-typescript", "--eval", program], {
    env: { ...process.env, TEST_RUN_FOLDER: run },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [directory] = await once(createInterface(child.stdout), "line");
  return { child, directory };
}

test("what the processes of a killed run had on the host is gone, and they are", async () => {
  const run = await tempDir();
  const { child, directory } = await begin(run);
  expect(mountsOf(directory)).not.toEqual([]);
  const pids = processesOf(directory);
  expect(pids).not.toEqual([]);
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(await clearLeftovers(run)).toEqual([]);
  await expectNothingLeft(directory, pids);
  expect(existsSync(directory)).toBe(false);
  expect(readdirSync("/proc").filter((pid) => read(`/proc/${pid}/environ`).includes(run))).toEqual([]);
});

test("the reaper begins when its pipe is closed, and deletes the folder of the run", async () => {
  const run = await tempDir();
  const { child, directory } = await begin(run);
  const reaper = spawn(process.execPath, [join(root, "test/runner/reaper.ts"), run], {
    stdio: ["pipe", "ignore", "inherit"],
  });
  expect(child.exitCode).toBeNull();
  reaper.stdin.end();
  expect(await once(reaper, "exit")).toEqual([0, null]);
  await expectNothingLeft(directory, []);
  expect([existsSync(directory), existsSync(run)]).toEqual([false, false]);
});
