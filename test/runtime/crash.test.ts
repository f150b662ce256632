/** Sudden ends on Linux: of the daemon, of the launcher, of a machine's first process. Callers lose nothing. */

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { thisHostsCgroups } from "../../src/runtime/linux/host/cgroup.ts";
import { freeze } from "../../src/runtime/linux/machines/freezer.ts";
import type { LinuxMachine } from "../../src/runtime/linux/machines/machine.ts";
import { places, planMachine } from "../../src/runtime/linux/machines/plan.ts";
import { bootFor, dismiss, expectReconciled } from "../conformance/runtime/host.ts";
import { gather, run, sh, start, until } from "../conformance/runtime/run.ts";
import { eventually } from "../harness/harness.ts";
import { agentPid, launcherPid, linuxHost, netdPid } from "../harness/linux-host.ts";
import { cgroupsOf } from "../harness/traces.ts";
import type { Owned } from "./owner.ts";

const runRoot = mkdtempSync("/run/sandkeep-crash-");
const host = linuxHost({ runRoot });
afterAll(() => rm(runRoot, { recursive: true, force: true }));

describe("a daemon that is killed", () => {
  test("while a machine ends, whose socket is gone before its processes, does not stop the next daemon", async () => {
    const machine = await bootFor(host());
    const pid = agentPid(host(), machine.id);
    await host().runtime.close();
    const { sockets } = places(host().directory, runRoot);
    for (const name of await readdir(sockets)) await rm(join(sockets, name));
    setTimeout(() => process.kill(pid, "SIGKILL"), 500);
    const { runtime } = await reopened();
    expect(runtime.ends().map(({ machineId }) => machineId)).toContain(machine.id);
    await dismiss(host(), machine.id);
    await expectReconciled(host());
  });

  test("in the middle of a snapshot leaves its machine frozen, and the next one thaws it", async () => {
    const machine = await bootFor(host());
    const { record } = host().runtime.machine(machine.id) as LinuxMachine;
    const plan = planMachine(places(host().directory, runRoot), thisHostsCgroups(), record.name, 0);
    await freeze(plan.cgroup, true);
    await host().runtime.close();
    await reopened();
    expect((await run(found(machine.id), ["echo", "thawed"])).stdout).toBe("thawed\n");
    await dismiss(host(), machine.id);
  });

  test("leaves machines and commands running, and the next one finds them with their whole output", async () => {
    await host().runtime.close();
    const owned = await ownThenKill(3);
    const { runtime } = await reopened();
    expect(
      runtime
        .machines()
        .map((machine) => machine.id)
        .sort(),
    ).toEqual(owned.machines.map(({ id }) => id).sort());
    expect(runtime.ends()).toEqual([]);
    await expectReconciled(host());
    for (const { id, counter, reader, done } of owned.machines) {
      const machine = found(id);
      expect(
        machine
          .processes()
          .map((command) => command.id)
          .sort(),
      ).toEqual([counter, reader].sort());
      const [counting, reading] = [machine.process(counter), machine.process(reader)];
      if (!counting || !reading) throw new Error("A command was not found again");
      const seen = (await gather(counting.output({ follow: false }))).stdout.trim().split("\n").length;
      await until(counting.output(), `\n${seen + 100}\n`);
      await counting.signal(9);
      await counting.exited;
      const { stdout, stderr, chunks } = await gather(counting.output());
      const numbers = stdout.trim().split("\n").map(Number);
      expect(numbers.slice(0, -1)).toEqual(Array.from({ length: numbers.length - 1 }, (_, n) => n));
      expect(stderr.startsWith("e0\ne1\ne2\n")).toBe(true);
      expect(chunks.every((chunk) => chunk.dropped === undefined)).toBe(true);
      await reading.write(Buffer.from("and after"));
      await reading.closeStdin();
      expect((await gather(reading.output())).stdout).toBe("written before and after");
      expect(machine.process(done)?.exit).toMatchObject({ code: 6 });
      expect((await gather(runtime.output(machine.id, done))).stdout).toBe("finished\n");
      await dismiss(host(), id);
    }
    await expectReconciled(host());
  });

  test("while a network is changed: nothing leaves the machine until the network is set again", async () => {
    const machine = await bootFor(host(), { network: "allow-all" });
    // The egress process accepts a connection to this address, and refuses it only then.
    const reachesUs = async (of: Machine) =>
      (await run(of, ["bash", "-c", "exec 3<>/dev/tcp/169.254.169.254/80"])).status.code === 0;
    expect(await reachesUs(machine)).toBe(true);
    await host().runtime.close();
    const [name = ""] = await readdir(join(host().directory, "store/machines"));
    const path = join(host().directory, "store/machines", name, "machine.json");
    const record = JSON.parse(await readFile(path, "utf8"));
    await writeFile(
      path,
      JSON.stringify({ ...record, spec: { ...record.spec, network: "deny-all" }, networkUnsure: true }),
    );
    await reopened();
    expect(await reachesUs(found(machine.id))).toBe(false);
    await found(machine.id).setNetwork("allow-all");
    expect(await reachesUs(found(machine.id))).toBe(true);
    await dismiss(host(), machine.id);
  });

  test("in the middle of boots and stops leaves nothing half made", async () => {
    for (let round = 0; round < 3; round++) {
      await host().runtime.close();
      const { machines } = await ownThenKill(1, 100 + round * 70);
      const { runtime } = await reopened();
      await expectReconciled(host());
      const live = runtime.machines().map((machine) => machine.id);
      expect(live).toContain(machines[0]?.id);
      for (const id of live) expect((await run(found(id), ["echo", "alive"])).stdout).toBe("alive\n");
      for (const { machineId } of runtime.ends()) await runtime.salvage(machineId);
      for (const id of [...live, ...endedIds()]) await dismiss(host(), id);
      await expectReconciled(host());
      expect(await readdir(join(host().directory, "store/machines"))).toEqual([]);
    }
  });

  test("between the capture of a machine's files and its record loses neither", async () => {
    const machine = await bootFor(host());
    await sh(machine, "echo precious > /file");
    const pid = agentPid(host(), machine.id);
    await host().runtime.close();
    process.kill(pid, "SIGKILL");
    const store = join(host().directory, "store");
    const [name = ""] = await readdir(join(store, "machines"));
    const volume = join(store, "machines", name, "volume");
    const layer = { id: "0123456789abcdef0123456789ab", createdAt: 1, size: 1, origin: name };
    await writeFile(join(volume, "layer.json"), JSON.stringify(layer));
    await rename(volume, join(store, "layers", layer.id));
    const { runtime } = await reopened();
    expect(runtime.end(machine.id)).toMatchObject({ machineId: machine.id, cause: "crash" });
    await runtime.snapshots.collect();
    const snapshot = await runtime.salvage(machine.id);
    const copy = await bootFor(host(), { root: { snapshot: snapshot?.id ?? "" } });
    expect((await sh(copy, "cat /file")).stdout).toBe("precious\n");
  });
});

describe("a machine whose first process is killed", () => {
  test("ends as a crash, its files and output are kept, and no other machine is affected", async () => {
    const [machine, other] = await Promise.all([bootFor(host()), bootFor(host())]);
    const { runtime } = host();
    await sh(machine, "echo precious > /file");
    const command = await start(machine, ["sh", "-c", "echo said; exec sleep 1000"]);
    await until(command.output(), "said");
    const following = gather(command.output());
    process.kill(agentPid(host(), machine.id), "SIGKILL");
    const end = await machine.ended;
    expect(end).toMatchObject({ machineId: machine.id, cause: "crash" });
    expect(end.snapshot).toBeUndefined();
    expect(runtime.machine(machine.id)).toBeUndefined();
    await expect(command.exited).rejects.toMatchObject({ code: "gone" });
    expect((await following).stdout).toBe("said\n");
    await expect(run(machine, ["true"])).rejects.toMatchObject({ code: "gone" });
    expect(await machine.stop()).toEqual(end);
    const snapshot = await runtime.salvage(machine.id);
    expect(await runtime.salvage(machine.id)).toEqual(snapshot);
    const copy = await bootFor(host(), { root: { snapshot: snapshot?.id ?? "" } });
    expect((await sh(copy, "cat /file")).stdout).toBe("precious\n");
    expect((await gather(runtime.output(machine.id, command.id))).stdout).toBe("said\n");
    expect((await run(other, ["echo", "alive"])).stdout).toBe("alive\n");
    await expectReconciled(host());
    // A disk that failed right after a volume was made may have lost the volume's content.
    process.kill(agentPid(host(), other.id), "SIGKILL");
    await other.ended;
    const machines = join(host().directory, "store/machines");
    const isOther = (name: string) => readFileSync(join(machines, name, "machine.json"), "utf8").includes(other.id);
    const name = (await readdir(machines)).find(isOther) ?? "";
    await rm(join(machines, name, "volume/fs"), { recursive: true });
    expect(await runtime.salvage(other.id)).toBeUndefined();
  });

  test("while it starts is started once more, and its caller does not notice", async () => {
    const before = new Set(processesIn(host().directory));
    const booting = bootFor(host());
    // A start takes several turns of this loop: the process is seen before it can run anything.
    let first: number | undefined;
    for (; first === undefined; await nextTurn()) first = processesIn(host().directory).find((pid) => !before.has(pid));
    process.kill(first, "SIGKILL");
    const machine = await booting;
    expect(agentPid(host(), machine.id)).not.toBe(first);
    expect((await run(machine, ["echo", "alive"])).stdout).toBe("alive\n");
    await expectReconciled(host());
  });

  test("while no daemon ran is found ended, once and with its files", async () => {
    const machine = await host().boot();
    await sh(machine, "echo precious > /file");
    const pid = agentPid(host(), machine.id);
    await host().runtime.close();
    process.kill(pid, "SIGKILL");
    const { runtime } = await reopened();
    expect(runtime.end(machine.id)).toMatchObject({ machineId: machine.id, cause: "crash" });
    expect(runtime.machine(machine.id)).toBeUndefined();
    await expectReconciled(host());
    const end = runtime.end(machine.id);
    await reopened();
    expect(host().runtime.end(machine.id)).toEqual(end);
    const snapshot = await host().runtime.salvage(machine.id);
    const copy = await bootFor(host(), { root: { snapshot: snapshot?.id ?? "" } });
    expect((await sh(copy, "cat /file")).stdout).toBe("precious\n");
    await dismiss(host(), machine.id);
  });

  test("while its snapshot is taken ends all the same", async () => {
    const machine = await bootFor(host());
    await sh(machine, "head -c 20000000 /dev/urandom > /data");
    const taking = machine.snapshot().catch((error: unknown) => error);
    process.kill(agentPid(host(), machine.id), "SIGKILL");
    expect(await machine.ended).toMatchObject({ cause: "crash" });
    await taking;
    await expectReconciled(host());
  });
});

describe("a launcher that is killed", () => {
  test("ends no machine, and the next one knows them all", async () => {
    const machines = await Promise.all([bootFor(host()), bootFor(host(), { network: "deny-all" })]);
    const [machine, other] = machines;
    if (!machine || !other) throw new Error("The machines did not boot");
    const command = await start(machine, ["sleep", "1000"]);
    const before = await machine.usage();
    process.kill(launcherPid(host()), "SIGKILL");
    expect((await run(machine, ["echo", "alive"])).stdout).toBe("alive\n");
    expect(command.exit).toBeUndefined();
    const fresh = await bootFor(host());
    expect((await run(fresh, ["echo", "new"])).stdout).toBe("new\n");
    await other.setNetwork("allow-all");
    const after = await machine.usage();
    expect(after.network.sent).toBeGreaterThanOrEqual(before.network.sent);
    expect(after.network.received).toBeGreaterThanOrEqual(before.network.received);
    const snapshot = await machine.snapshot();
    await expectReconciled(host());
    expect(await machine.stop()).toMatchObject({ cause: "asked" });
    const copy = await bootFor(host(), { root: { snapshot: snapshot.id } });
    expect((await run(copy, ["echo", "copy"])).stdout).toBe("copy\n");
    await expectReconciled(host());
  });

  test("twice in a row, and while it has no requests, is replaced", async () => {
    const machine = await bootFor(host());
    for (let n = 0; n < 2; n++) {
      const pid = launcherPid(host());
      process.kill(pid, "SIGKILL");
      await eventually("a new launcher", () => launcherPid(host()) !== pid);
      await expectReconciled(host());
    }
    expect((await run(machine, ["echo", "alive"])).stdout).toBe("alive\n");
  });

  test("or its network process: the next one logs the packets that the kernel refuses", async () => {
    const machine = await bootFor(host(), { network: "deny-all" });
    const log = host().runtime.egress(machine.id);
    const isToldOf = (port: number) =>
      eventually(`an attempt at port ${port} is in the log`, async () => {
        await run(machine, ["bash", "-c", `: > /dev/tcp/93.184.216.34/${port}`]);
        const { lines } = (await log?.lines({ after: 0, limit: 1000 })) ?? { lines: [] };
        return lines.some((line) => "rule" in line && line.rule === "deny-all" && line.port === port);
      });
    await isToldOf(1);
    const netd = netdPid(host());
    if (netd === undefined) throw new Error("The launcher has no network process");
    process.kill(netd, "SIGKILL");
    await isToldOf(2);
    process.kill(launcherPid(host()), "SIGKILL");
    await isToldOf(3);
    await expectReconciled(host());
  });

  test("in the middle of boots, stops and snapshots: each succeeds or says why, and nothing is left", async () => {
    for (let round = 0; round < 3; round++) {
      const machines = await Promise.all(Array.from({ length: 6 }, () => bootFor(host())));
      const boots = Array.from({ length: 8 }, () => bootFor(host()));
      const stops = machines.slice(0, 3).map((machine) => machine.stop({ snapshot: true }));
      const snapshots = machines.slice(3).map((machine) => machine.snapshot());
      await new Promise((resolve) => setTimeout(resolve, round * 4));
      process.kill(launcherPid(host()), "SIGKILL");
      const results = await Promise.allSettled<unknown>([...boots, ...stops, ...snapshots]);
      for (const result of results) {
        if (result.status === "rejected") expect(result.reason).toMatchObject({ name: "SandkeepError", code: "gone" });
      }
      // a machine that had to stop has ended, even if its snapshot failed
      expect(await Promise.all(machines.slice(0, 3).map((machine) => machine.ended))).toHaveLength(3);
      for (const machine of machines.slice(3)) expect((await run(machine, ["echo", "alive"])).stdout).toBe("alive\n");
      for (const boot of await Promise.allSettled(boots)) {
        if (boot.status === "fulfilled") expect((await run(boot.value, ["echo", "alive"])).stdout).toBe("alive\n");
      }
      await expectReconciled(host());
    }
  });

  test("while the daemon is away: machines are taken over by the launcher that the next one starts", async () => {
    const machine = await bootFor(host());
    const command = await start(machine, ["sh", "-c", "echo up; exec sleep 1000"]);
    const pid = launcherPid(host());
    await host().runtime.close();
    process.kill(pid, "SIGKILL");
    await reopened();
    const again = found(machine.id);
    expect(again.process(command.id)).toMatchObject({ pid: command.pid });
    expect((await again.usage()).network.sent).toBeGreaterThanOrEqual(0);
    await again.setNetwork("deny-all");
    await expectReconciled(host());
    expect(await again.stop()).toMatchObject({ cause: "asked" });
    await expectReconciled(host());
  });
});

describe("leftovers of an earlier daemon", () => {
  test("are removed: folders without a record, unknown cgroups and prepared machines", async () => {
    const store = join(host().directory, "store");
    await host().runtime.close();
    await mkdir(join(store, "machines", "m0000000000000000", "journal"), { recursive: true });
    const { runtime } = await reopened();
    expect(await readdir(join(store, "machines"))).toEqual([]);
    expect(await runtime.reconcile()).toEqual([]);
  });

  test("a ledger whose last line is cut short is read up to there", async () => {
    const machine = await bootFor(host());
    await host().runtime.close();
    await writeFile(join(host().directory, "ledger.jsonl"), '{"make":[{"kind":"cgro', { flag: "a" });
    await reopened();
    expect((await run(found(machine.id), ["echo", "alive"])).stdout).toBe("alive\n");
    await expectReconciled(host());
  });
});

async function reopened() {
  await host().reopen();
  return host();
}

function found(id: string): Machine {
  const machine = host().runtime.machine(id);
  if (!machine) throw new Error(`Machine "${id}" was not found again`);
  return machine;
}

/** ids of machines that ended but are not forgotten; the runtime has no list of them */
function endedIds(): string[] {
  return Array.from({ length: 4 }, (_, worker) =>
    Array.from({ length: 200 }, (_, turn) => `churn-${worker}-${turn}`),
  ).flat();
}

/** runs test/runtime/owner.ts until it has made its machines, and for this time after that, and kills it */
async function ownThenKill(machines: number, churnMs?: number): Promise<Owned> {
  const args = [host().directory, runRoot, `${machines}`, ...(churnMs === undefined ? [] : ["booting"])];
  const child = spawn(process.execPath, [join(import.meta.dirname, "owner.ts"), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  try {
    for await (const line of createInterface(child.stdout)) {
      const owned = JSON.parse(line) as Owned;
      if (churnMs !== undefined) await new Promise((resolve) => setTimeout(resolve, churnMs));
      return owned;
    }
    throw new Error("The owner ended before it had made its machines");
  } finally {
    child.kill("SIGKILL");
    await exited;
  }
}

/** of all machines of a data directory, by their cgroups */
function processesIn(directory: string): number[] {
  const machines = cgroupsOf(directory).flatMap((parent) => readdirSync(parent).map((name) => join(parent, name)));
  const lists = machines.map((cgroup) => join(cgroup, "cgroup.procs")).filter((path) => existsSync(path));
  return lists.flatMap((path) => readFileSync(path, "utf8").split("\n").filter(Boolean).map(Number));
}
