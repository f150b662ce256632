/**
 * The Linux runtime with a pool of prepared machines: those out of the pool are like all others, and none is left over.
 */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Files, Machine } from "../../src/core/ports/runtime.ts";
import { adoptSuite } from "../conformance/runtime/adopt.ts";
import { bootFor, expectReconciled } from "../conformance/runtime/host.ts";
import { run, sh } from "../conformance/runtime/run.ts";
import { eventually } from "../harness/harness.ts";
import { agentPid, launcherPid, linuxHost } from "../harness/linux-host.ts";

const host = linuxHost({ pool: { hot: 2, warm: 2 } });

describe("a runtime with a pool", () => {
  test("boots from prepared machines, which are replaced in the background", async () => {
    await host().runtime.ready();
    const before = preparedMachines();
    expect(before).toHaveLength(4);
    const machine = await bootFor(host());
    expect((await run(machine, ["echo", "hello"])).stdout).toBe("hello\n");
    await eventually("the pool is full again", () => preparedMachines().length === 5);
    await host().runtime.ready();
    expect(before.filter((name) => !preparedMachines().includes(name))).toEqual([]);
    await expectReconciled(host());
  });

  test("leaves no trace of programs that a prepared machine ran before its use", async () => {
    await host().runtime.ready();
    const machine = await bootFor(host());
    expect(machine.processes()).toEqual([]);
    expect(host().runtime.command(machine.id, "rehearsal")).toBeUndefined();
    expect((await run(machine, ["sh", "-c", "ls -A /tmp /var/tmp"])).stdout).toBe("/tmp:\n\n/var/tmp:\n");
    const process = await machine.exec({ id: "rehearsal", argv: ["true"] });
    expect(await process.exited).toMatchObject({ code: 0 });
  });

  test("gives every machine its own spec, whatever the prepared machine was made for", async () => {
    await host().runtime.ready();
    const limits = { vcpus: 1, memory: 128 << 20, pids: 40, disk: 48 << 20 };
    const machine = await bootFor(host(), { limits, network: "deny-all", sudo: false });
    const { stdout } = await sh(machine, "nproc; grep NoNewPrivs /proc/self/status | tr -dc 01");
    expect(stdout).toBe("1\n1");
    expect((await sh(machine, "head -c 100000000 /dev/zero > /f")).status.code).not.toBe(0);
    const hog = await run(machine, ["python3", "-c", "x = b'1' * (200 << 20)"]);
    expect(hog.status.outOfMemory).toBe(true);
    await host().runtime.ready();
    const small = await bootFor(host(), { limits: { memory: 128 << 20, disk: 48 << 20, pids: 40 } });
    expect((await sh(small, "head -c 100000000 /dev/zero > /f")).status.code).not.toBe(0);
    expect((await run(small, ["python3", "-c", "x = b'1' * (200 << 20)"])).status.outOfMemory).toBe(true);
  });

  test("sets machines up before they are handed over, whether or not the pool has done it", async () => {
    await host().runtime.ready();
    const setup = { key: "greeting", apply: (files: Files) => files.write("/greeting", Buffer.from("hello\n")) };
    // the first ones are set up as they are taken, the later ones while they wait
    for (let n = 0; n < 6; n++) {
      const machine = await bootFor(host(), { setup });
      expect((await run(machine, ["cat", "/greeting"])).stdout).toBe("hello\n");
      expect(Object.keys(machine.spec)).not.toContain("setup");
      await host().runtime.ready();
    }
    for (let n = 0; n < 4; n++) {
      const other = await bootFor(host());
      expect((await run(other, ["ls", "/greeting"])).status.code).not.toBe(0);
    }
    await host().runtime.ready();
    await expectReconciled(host());
  });

  test("boots from snapshots too", async () => {
    const machine = await bootFor(host());
    await sh(machine, "echo kept > /file");
    const snapshot = await machine.snapshot();
    await host().runtime.ready();
    const copies = await Promise.all([1, 2, 3, 4].map(() => bootFor(host(), { root: { snapshot: snapshot.id } })));
    for (const copy of copies) expect((await sh(copy, "cat /file")).stdout).toBe("kept\n");
  });

  test("many boots at once use all prepared machines and make the rest", async () => {
    await host().runtime.ready();
    const machines: Machine[] = await Promise.all(Array.from({ length: 12 }, () => bootFor(host())));
    const outputs = await Promise.all(machines.map((machine) => run(machine, ["echo", machine.id])));
    expect(outputs.map((output) => output.stdout.trim())).toEqual(machines.map((machine) => machine.id));
  });

  test("dead prepared machines are not used", async () => {
    await host().runtime.ready();
    const machine = await bootFor(host());
    await host().runtime.ready();
    const waiting = agents().filter((pid) => pid !== agentPid(host(), machine.id));
    expect(waiting).toHaveLength(4);
    for (const pid of waiting) process.kill(pid, "SIGKILL");
    await eventually("they are gone", () => waiting.every((pid) => !agents().includes(pid)));
    for (let n = 0; n < 6; n++) expect((await run(await bootFor(host()), ["echo", "new"])).stdout).toBe("new\n");
    expect((await run(machine, ["echo", "alive"])).stdout).toBe("alive\n");
    await expectReconciled(host());
  });

  test("a killed launcher ends no machine, and the pool fills again", async () => {
    await host().runtime.ready();
    const machine = await bootFor(host());
    await host().runtime.ready();
    const pid = launcherPid(host());
    process.kill(pid, "SIGKILL");
    await eventually("a new launcher", () => launcherPid(host()) !== pid);
    await host().runtime.ready();
    for (let n = 0; n < 6; n++) expect((await run(await bootFor(host()), ["echo", "new"])).stdout).toBe("new\n");
    expect((await run(machine, ["echo", "alive"])).stdout).toBe("alive\n");
    await expectReconciled(host());
  });

  test("closing it leaves no prepared machine, and opening it again makes new ones", async () => {
    await host().runtime.ready();
    await host().runtime.close();
    expect(preparedMachines()).toEqual([]);
    await host().reopen();
    await host().runtime.ready();
    expect(preparedMachines()).toHaveLength(4);
  });
});

adoptSuite(host);

/** first processes of machines and prepared machines, as the host sees them */
function agents(): number[] {
  const launcher = launcherPid(host());
  const children = readFileSync(`/proc/${launcher}/task/${launcher}/children`, "utf8").trim().split(" ").map(Number);
  return children.filter((pid) => readFileSync(`/proc/${pid}/comm`, "utf8") === "sandkeep-agent\n");
}

/** folders of machines, used or not */
function preparedMachines(): string[] {
  return readdirSync(join(host().directory, "store/machines")).sort();
}
