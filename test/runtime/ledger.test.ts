/** The reconciler: it finds and names everything that is on the host but not in the ledger, or the other way round. */

import { existsSync, mkdirSync, readdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { bootFor, expectReconciled } from "../conformance/runtime/host.ts";
import { run } from "../conformance/runtime/run.ts";
import { linuxHost } from "../harness/linux-host.ts";
import { cgroupsOf } from "../harness/traces.ts";

const host = linuxHost({ pool: { hot: 1, warm: 1 } });

describe("reconciling", () => {
  test("finds nothing while machines and prepared machines live, and after they are gone", async () => {
    await host().runtime.ready();
    await expectReconciled(host());
    const machines = await Promise.all([bootFor(host()), bootFor(host()), bootFor(host())]);
    await host().runtime.ready();
    expect(await host().runtime.reconcile()).toEqual([]);
    await Promise.all(machines.map((machine) => machine.stop()));
    await host().runtime.ready();
    await expectReconciled(host());
  });

  test("finds a cgroup, a folder and a socket that are not in the ledger", async () => {
    const [tree = ""] = cgroupsOf(host().directory);
    const stray = join(tree, "stray");
    const folder = join(host().directory, "store/machines/stray");
    mkdirSync(stray);
    mkdirSync(folder);
    onTestFinished(() => {
      if (existsSync(stray)) rmdirSync(stray);
      rmSync(folder, { recursive: true, force: true });
    });
    await host().runtime.ready();
    expect(await host().runtime.reconcile()).toEqual(
      expect.arrayContaining([
        { kind: "cgroup", name: stray, problem: "not in the ledger" },
        { kind: "directory", name: folder, problem: "not in the ledger" },
      ]),
    );
    rmdirSync(stray);
    rmSync(folder, { recursive: true });
    await expectReconciled(host());
  });

  test("finds a folder that vanished", async () => {
    await host().runtime.ready();
    const machine = await bootFor(host());
    await run(machine, ["true"]);
    await machine.stop();
    await host().runtime.ready();
    const machines = join(host().directory, "store/machines");
    const name = readdirSync(machines).find((candidate) => existsSync(join(machines, candidate, "machine.json"))) ?? "";
    rmSync(join(machines, name), { recursive: true });
    expect(await host().runtime.reconcile()).toEqual([
      { kind: "directory", name: join(machines, name), problem: "gone" },
    ]);
    await host().runtime.forget(machine.id);
    await expectReconciled(host());
  });

  test("folders of machines whose lines were lost with the power are recorded again", async () => {
    const machine = await host().boot();
    await machine.stop();
    await host().runtime.close();
    writeFileSync(join(host().directory, "ledger.jsonl"), "");
    expect(await (await host().reopen()).reconcile()).toEqual([]);
    await host().runtime.forget(machine.id);
  });

  test("entries that an earlier daemon recorded and never made are removed", async () => {
    await host().runtime.close();
    const things = [
      { kind: "directory", name: join(host().directory, "store/machines/m00000000deadbeef") },
      { kind: "namespace", name: "m00000000deadbeef" },
      { kind: "cgroup", name: join(cgroupsOf(host().directory)[0] ?? "", "m00000000deadbeef") },
    ];
    writeFileSync(join(host().directory, "ledger.jsonl"), `${JSON.stringify({ make: things })}\n`, { flag: "a" });
    await host().reopen();
    await host().runtime.ready();
    await expectReconciled(host());
  });

  test("entries of cgroups that an earlier daemon removed, of a machine that is gone, are removed", async () => {
    await host().runtime.close();
    const things = cgroupsOf(host().directory).map((tree) => ({
      kind: "cgroup",
      name: join(tree, "m00000000deadbeef"),
    }));
    writeFileSync(join(host().directory, "ledger.jsonl"), `${JSON.stringify({ make: things })}\n`, { flag: "a" });
    await host().reopen();
    await host().runtime.ready();
    await expectReconciled(host());
  });
});
