/** An upgrade while sandboxes run: which processes of the earlier build stay, and what `sandkeep upgrade` replaces. */

import { execFile } from "node:child_process";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { eventually, root, tempDir, type Undo } from "../../harness/harness.ts";
import { processesOf } from "../../harness/traces.ts";
import { accessTo, raw, sdks } from "../clients.ts";
import { lineWith } from "../egress/egress-lines.ts";

const { Sandbox } = sdks["3.5.0"];

test("upgrade replaces the egress process at once, and the launcher when the last sandbox has ended", async () => {
  const undo = new AsyncDisposableStack();
  onTestFinished(() => undo.disposeAsync());
  const folder = await installBuild(undo, "first");
  const daemon = await startDaemon(undo, {}, { command: [join(folder, "bin/sandkeep"), "serve"] });
  const sandbox = await Sandbox.create({ ...accessTo(daemon), name: "old" });
  const before = processes(daemon);
  expect(isIn(before.egress, folder, "first")).toBe(true);

  replaceBuild(folder, "second");
  await expect(upgrade()).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("another build was installed since this daemon began; restart the daemon first"),
  });
  await daemon.stop();
  await daemon.start();
  expect(daemon.complaints()).toContain(
    `The launcher (process ${before.launcher}) is of another build and keeps running; it is replaced when the last sandbox ends`,
  );
  expect(await doctor()).toContain(`The egress process (process ${before.egress}) is older than its program`);

  expect((await upgrade()).stdout).toBe(
    [
      `Replaced the egress process (process ${before.egress}): what sandboxes had open to the outside is cut off`,
      "1 sandbox still runs on the launcher of an earlier build: old",
      `The daemon replaces the launcher (process ${before.launcher}) when the last sandbox ends`,
      "",
    ].join("\n"),
  );
  const between = processes(daemon);
  expect(between.launcher).toBe(before.launcher);
  expect(isIn(between.egress, folder, "second")).toBe(true);
  // No name server answers here; the log shows that it was asked.
  await sandbox.runCommand("getent", ["hosts", "after.test"]);
  await lineWith(daemon, sandbox, { name: "after.test" });

  await raw(daemon, "DELETE", `/v2/sandboxes/old?projectId=prj_default`);
  await eventually("the launcher is replaced", () => processes(daemon).launcher !== before.launcher);
  expect((await upgrade()).stdout).toBe("Every process is of the daemon's build\n");
  expect(await doctor()).toContain("every process is of this build");
  const next = await Sandbox.create({ ...accessTo(daemon), name: "new" });
  expect((await next.runCommand("echo", ["hello"])).exitCode).toBe(0);

  function upgrade() {
    return sandkeep("upgrade", "--url", daemon.url);
  }

  async function doctor(): Promise<string> {
    return (await sandkeep("doctor", "--data-dir", daemon.dataDir)).stdout;
  }

  function sandkeep(...args: string[]) {
    const env = { ...process.env, SANDKEEP_API_KEY: daemon.key };
    return promisify(execFile)(join(folder, "bin/sandkeep"), args, { env });
  }
});

/** a clone as it is after `npm start`, with a mark of its own in every part that processes run */
async function installBuild(undo: Undo, mark: string): Promise<string> {
  const folder = join(await tempDir(undo), "sandkeep");
  replaceBuild(folder, mark);
  return folder;
}

/** as npm does it: the old folder is moved away and deleted, and the new one has its name */
function replaceBuild(folder: string, mark: string): void {
  if (existsSync(folder)) renameSync(folder, `${folder}.old`);
  mkdirSync(folder);
  for (const name of ["bin", "src", "scripts", "guest", "package.json"])
    cpSync(join(root, name), join(folder, name), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, `src/egress/${mark}.txt`), mark);
  appendFileSync(join(folder, "guest/build/sandkeep-guest"), mark);
  rmSync(`${folder}.old`, { recursive: true, force: true });
}

function processes({ dataDir }: TestDaemon): { launcher: number; egress: number } {
  const all = processesOf(dataDir);
  const named = (name: string) => all.find((pid) => read(pid, "comm").trim() === name) ?? 0;
  const [netd, keeper] = [named("sandkeep-netd"), named("sandkeep-keeper")];
  const egress = all.find((pid) => parentOf(pid) === keeper) ?? 0;
  return { launcher: parentOf(netd), egress };
}

function parentOf(pid: number): number {
  return Number(/^PPid:\s+(\d+)$/m.exec(read(pid, "status"))?.[1] ?? -1);
}

/** whether a process sees this build where its code is */
function isIn(pid: number, folder: string, mark: string): boolean {
  return readdirSync(join(`/proc/${pid}/root`, folder, "src/egress")).includes(`${mark}.txt`);
}

function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}
