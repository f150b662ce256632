/** A launcher that is missing when it is needed: for a start, or for an end. */

import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { copyFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { messageOf } from "../../src/core/model/errors.ts";
import { Type } from "../../src/protocols/guest-frames.ts";
import { openFiles } from "../../src/runtime/linux/guest-wire/channel.ts";
import { Launcher } from "../../src/runtime/linux/guest-wire/launcher.ts";
import { run } from "../conformance/runtime/run.ts";
import { eventually, root, tempDir } from "../harness/harness.ts";
import { agentPid, expectNothingLeft, launcherPid, stayersOf } from "../harness/linux-host.ts";
import { withRuntime } from "../harness/machine.ts";
import { processesOf } from "../harness/traces.ts";
import { guestBinary } from "../runner/needs.ts";

test("a launcher that failed to start is started by the next request, and takes over the machines", async () => {
  await using undo = new AsyncDisposableStack();
  const guest = join(await tempDir(), "guest");
  await copyFile(guestBinary, guest);
  const host = await withRuntime(undo, { guest });
  const machine = await host.boot();
  await rename(guest, `${guest}.away`);
  undo.defer(() => rename(`${guest}.away`, guest).catch(() => undefined));
  process.kill(launcherPid(host), "SIGKILL");
  await eventually("a request fails", async () => (await failureOf(host.runtime.reconcile())).includes(guest));
  expect(await failureOf(host.boot())).toContain(`Cannot start the launcher "${guest}"`);
  await rename(`${guest}.away`, guest);
  expect((await run(await host.boot(), ["echo", "new"])).stdout).toBe("new\n");
  expect(await machine.stop()).toMatchObject({ cause: "asked" });
  // The next daemon undoes the unfinished boots.
  expect(await (await host.reopen()).reconcile()).toEqual([]);
});

test("a machine can be stopped though no launcher can be started", async () => {
  await using undo = new AsyncDisposableStack();
  const guest = join(await tempDir(), "guest");
  await copyFile(guestBinary, guest);
  const host = await withRuntime(undo, { guest });
  const machine = await host.boot();
  const pid = agentPid(host, machine.id);
  await rename(guest, `${guest}.away`);
  undo.defer(() => rename(`${guest}.away`, guest).catch(() => undefined));
  process.kill(launcherPid(host), "SIGKILL");
  await eventually("a request fails", async () => (await failureOf(host.runtime.reconcile())).includes(guest));
  // Its files cannot be deleted yet, and the error says so.
  expect(await failureOf(machine.stop())).toContain(`Cannot start the launcher "${guest}"`);
  expect(await machine.ended).toMatchObject({ cause: "asked" });
  expect(host.runtime.machine(machine.id)).toBeUndefined();
  await eventually("its first process is gone", () => !existsSync(`/proc/${pid}`));
  await rename(`${guest}.away`, guest);
  await host.runtime.forget(machine.id);
  expect(await (await host.reopen()).reconcile()).toEqual([]);
});

test("a launcher that lives and does not answer is replaced, and requests are answered", async () => {
  await using undo = new AsyncDisposableStack();
  const said: string[] = [];
  const options = { run: await tempDir(undo), binary: guestBinary, egress: ["/bin/sleep", "infinity"], env: {} };
  const launcher = await Launcher.open({
    ...options,
    orphans: () => [],
    // Its successor must answer within that.
    patience: 5000,
    died: (sentence) => void said.push(sentence),
  });
  undo.defer(() => launcher.shutdown());
  const { pid } = launcher;
  process.kill(pid, "SIGSTOP");
  // A daemon that starts meanwhile neither waits for ever nor starts a second launcher.
  await expect(Launcher.open({ ...options, orphans: () => [], patience: 100 })).rejects.toThrow(
    /^Cannot talk to the launcher: it has not answered for 0.1 s; the process that listens at ".*launch.sock" may be stopped$/,
  );
  expect(await launcher.machines()).toEqual([]);
  expect(launcher.pid).not.toBe(pid);
  const what = `The launcher (process ${pid}) did not answer and was killed; process ${launcher.pid} has taken its place`;
  expect(said).toEqual([expect.stringContaining(what)]);
});

test("a request on a connection of its own waits for the successor of a launcher that has just been killed", async () => {
  await using undo = new AsyncDisposableStack();
  const [runDir, folder] = [await tempDir(undo), await tempDir(undo)];
  const options = { run: runDir, binary: guestBinary, egress: ["/bin/sleep", "infinity"], env: {}, orphans: () => [] };
  const launcher = await Launcher.open(options);
  undo.defer(() => launcher.shutdown());
  for (const ask of [() => launcher.sync(folder), async () => (await launcher.filesAt(folder)).close()]) {
    const { pid } = launcher;
    process.kill(pid, "SIGKILL");
    // In this turn nothing has been heard of its end.
    while (!hasEnded(pid));
    await ask();
    expect(launcher.pid).not.toBe(pid);
  }
});

test("a helper of the launcher that is stopped is given up, and the next one answers", async () => {
  await using undo = new AsyncDisposableStack();
  const [runDir, folder] = [await tempDir(undo), await tempDir(undo)];
  const options = { run: runDir, binary: guestBinary, egress: ["/bin/sleep", "infinity"], env: {}, orphans: () => [] };
  const launcher = await Launcher.open({ ...options, patience: 1000 });
  undo.defer(() => launcher.shutdown());
  // It waits for the other end of a pipe, as it would wait for a disk that hangs.
  await promisify(execFile)("mkfifo", [join(folder, "fifo")]);
  await expect(launcher.sync(join(folder, "fifo"))).rejects.toMatchObject({
    code: "unavailable",
    message: "Cannot finish the request: the launcher's helper has not answered for 15 s",
  });
  await launcher.sync(folder);
  const socket = join(runDir, "launch.sock");
  const session = await openFiles(socket, "the launcher", Type.filesAt, folder, undefined, 5000);
  for (const pid of helpersOf(launcher.pid)) process.kill(pid, "SIGSTOP");
  await expect(session.stat("/")).rejects.toThrow("the launcher's helper has not answered for 5 s");
  for (const pid of helpersOf(launcher.pid)) process.kill(pid, "SIGCONT");
  await writeFile(join(folder, "fifo"), "");
  await eventually("the helpers have ended", () => helpersOf(launcher.pid).length === 0);
});

test("processes that stay beside the launcher are replaced when they are killed", async () => {
  await using undo = new AsyncDisposableStack();
  const host = await withRuntime(undo);
  const stayers = () => stayersOf(launcherPid(host));
  const life = async () => {
    const machine = await host.boot();
    expect((await run(machine, ["echo", "here"])).stdout).toBe("here\n");
    expect(await machine.stop({ snapshot: true })).toMatchObject({ cause: "asked", snapshot: expect.anything() });
    return machine.id;
  };
  await life();
  const before = stayers();
  expect(before.map(nameOf)).toEqual(expect.arrayContaining(["sandkeep-copier", "sandkeep-mounts"]));
  for (const pid of before) process.kill(pid, "SIGKILL");
  await host.runtime.forget(await life());
  expect(stayers().map(nameOf)).toEqual(expect.arrayContaining(["sandkeep-copier", "sandkeep-mounts"]));
  expect(stayers().filter((pid) => before.includes(pid))).toEqual([]);
});

test("a copy that its process does not finish fails, and those that come meanwhile are made", async () => {
  await using undo = new AsyncDisposableStack();
  const host = await withRuntime(undo);
  await host.boot();
  const copiers = () => childrenOf(launcherPid(host)).filter((pid) => nameOf(pid) === "sandkeep-copier");
  const stopped = copiers();
  for (const pid of stopped) process.kill(pid, "SIGSTOP");
  undo.defer(() => stopped.forEach(resume));
  const stores = join(host.directory, "store");
  const copy = host.runtime.layers.branch("missing", join(stores, "nowhere"), { often: false, limit: 0 });
  const refused = expect(copy).rejects.toThrow("its process died");
  await eventually("it has been taken", async () => {
    await host.boot();
    return copiers().some((pid) => !stopped.includes(pid));
  });
  for (const pid of stopped) process.kill(pid, "SIGKILL");
  await refused;
});

test("a dead launcher does not prevent shutting down", async () => {
  await using undo = new AsyncDisposableStack();
  const host = await withRuntime(undo);
  const machine = await host.boot();
  await machine.stop({ snapshot: true });
  const before = processesOf(host.directory);
  process.kill(launcherPid(host), "SIGKILL");
  await undo.disposeAsync();
  await expectNothingLeft(host.directory, before);
});

test("nothing outlives a start that fails late, because the egress process does not answer", async () => {
  await using undo = new AsyncDisposableStack();
  const [data, runRoot] = [await tempDir(undo), await tempDir(undo)];
  const start = `
    import { noEgressSettings } from ${JSON.stringify(join(root, "src/core/ports/egress-settings.ts"))};
    import { runtimeAt } from ${JSON.stringify(join(root, "test/harness/machine.ts"))};
    const silent = { egress: ["/usr/bin/false", "/usr/bin/false"], egressSettings: () => noEgressSettings };
    await runtimeAt(...process.argv.slice(1), silent).open().catch((error) => {
      console.error(error.message);
      process.exitCode = 1;
    });`;
  const args = ["--input-type=module", "-e", start, data, runRoot];
  await expect(promisify(execFile)(process.execPath, args, { timeout: 120_000 })).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /egress process that runs: it does not answer; the process that listens at ".*egress\.sock" may be stopped/,
    ),
  });
  await expectNothingLeft(data, []);
});

/** pids of the processes that serve one request each */
function helpersOf(launcher: number): number[] {
  return childrenOf(launcher).filter((pid) => nameOf(pid) === "sandkeep-guest");
}

function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
  return children.filter((child) => child > 0);
}

/** empty for a process that has ended meanwhile */
function nameOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
  } catch {
    return "";
  }
}

/** whether it is gone, or a zombie */
function hasEnded(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return true;
  }
}

function resume(pid: number): void {
  try {
    process.kill(pid, "SIGCONT");
  } catch {
    // It has ended.
  }
}

async function failureOf(request: Promise<unknown>): Promise<string> {
  return request.then(
    () => "",
    (error) => messageOf(error),
  );
}
