/**
 * A store that lost a layer, has something else in its place, or is full gives a clear error, and leaves nothing over.
 */

import { mkdir, readdir, readFile, rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Machine, Process, SnapshotInfo } from "../../src/core/ports/runtime.ts";
import { bootFor, expectReconciled } from "../conformance/runtime/host.ts";
import { gather, run, sh, start, until } from "../conformance/runtime/run.ts";
import { eventually } from "../harness/harness.ts";
import { linuxHost } from "../harness/linux-host.ts";

describe("a layer that is not what it was", () => {
  const host = linuxHost();

  test.each([
    ["vanished", "", ""],
    ["lost its content", "fs", ""],
    ["is a file", "", "file"],
    ["has a file as its content", "fs", "file"],
    ["has a record that is no record", "layer.json", "nonsense"],
  ])("a layer that %s is named in the refusal, and no machine is left", async (_what, name, content) => {
    const machine = await bootFor(host());
    await sh(machine, "echo there > /file");
    const snapshot = await machine.snapshot();
    const path = join(host().directory, "store/layers", topOf(snapshot), name);
    await rm(path, { recursive: true });
    if (content !== "") await writeFile(path, content);
    // the cached records must not be used
    await host().reopen();
    await expect(host().boot({ root: { snapshot: snapshot.id } })).rejects.toMatchObject({
      name: "SandkeepError",
      message: expect.stringMatching(new RegExp(`^Cannot (boot|read) .*${topOf(snapshot)}`)),
    });
    await expectReconciled(host());
    expect(host().runtime.machines()).toHaveLength(1);
    await host().runtime.snapshots.delete(snapshot.id);
    await host().runtime.snapshots.collect();
  });

  test("machines that already run on it are not affected", async () => {
    const machine = await bootFor(host());
    await sh(machine, "echo there > /file");
    const snapshot = await machine.snapshot();
    const copy = await bootFor(host(), { root: { snapshot: snapshot.id } });
    expect((await sh(copy, "cat /file")).stdout).toBe("there\n");
    await host().runtime.snapshots.delete(snapshot.id);
    await host().runtime.snapshots.collect();
    expect((await sh(copy, "cat /file")).stdout).toBe("there\n");
  });
});

describe("a machine that has ended", () => {
  const host = linuxHost();

  test("keeps its output but no files: deleting its snapshot frees their room", async () => {
    const used = async () => {
      const { bfree, bsize } = await statfs(join(host().directory, "store"));
      return -bfree * bsize;
    };
    const written = 150_000_000;
    const machine = await bootFor(host());
    const before = await used();
    await run(machine, ["sh", "-c", `echo said; head -c ${written} /dev/urandom > /srv/file`], { id: "speaker" });
    const first = (await machine.stop({ snapshot: true })).snapshot;
    const next = await bootFor(host(), { root: { snapshot: first?.id ?? "" } });
    const second = (await next.stop({ snapshot: true })).snapshot;
    await host().runtime.sync();
    expect((await used()) - before).toBeGreaterThan(written * 0.9);
    for (const snapshot of [first, second]) await host().runtime.snapshots.delete(snapshot?.id ?? "");
    await host().runtime.snapshots.collect();
    await eventually("the room is free", async () => {
      await host().runtime.sync();
      return (await used()) - before < written / 10;
    });
    expect((await gather(host().runtime.output(machine.id, "speaker"))).stdout).toBe("said\n");
  });
});

describe("a full store", () => {
  const host = linuxHost({ storage: { imageSize: 1 << 30 } });
  /** the error codes of a full store, inside a sandbox and on the host */
  const full = expect.stringMatching(/^(limit|no-room)$/);
  const fill =
    "for n in 1 2 3; do head -c 1500000000 /dev/zero > /var/tmp/fill-$n; done; head -c 9000 /dev/zero > /var/tmp/fill-4";

  test("stops the writer; other machines go on, and their dropped output is counted", async () => {
    const [machine, other] = await Promise.all([bootFor(host()), bootFor(host())]);
    await sh(other, "echo small > /file");
    const script = "i=0; while [ ! -e /stop ]; do echo $i; i=$((i+1)); sleep 0.01; done";
    const counter = await start(other, ["sh", "-c", script]);
    await until(counter.output(), "\n3\n");
    expect((await sh(machine, fill)).status.code).not.toBe(0);
    expect((await other.files().stat("/file")).size).toBe(6);
    expect(counter.exit).toBeUndefined();
    await empty(machine);
    await eventually("room for a file", () =>
      other
        .files()
        .write("/stop", Buffer.from("x"))
        .then(() => true),
    );
    const { outputEnd } = await counter.exited;
    const { chunks, length, dropped } = await gather(counter.output());
    expect(length + dropped).toBe(outputEnd);
    const text = chunks.map((chunk) => Buffer.from(chunk.data).toString()).join("");
    const lines = text.trim().split("\n").map(Number);
    expect(lines).toEqual([...lines].sort((a, b) => a - b));
  });

  test("refuses requests that it has no room for with a clear error, and works when there is room again", async () => {
    const machine = await bootFor(host());
    await sh(machine, fill);
    const attempts: Promise<unknown>[] = [
      ...Array.from({ length: 4 }, () => bootFor(host())),
      ...Array.from({ length: 4 }, () => start(machine, ["sleep", "1000"])),
      machine.snapshot(),
      machine.files().write("/var/tmp/more", Buffer.alloc(10 << 20)),
    ];
    const results = await Promise.allSettled(attempts);
    expect(results.at(-1)?.status).toBe("rejected");
    for (const result of results) {
      if (result.status === "rejected") expect(result.reason).toMatchObject({ name: "SandkeepError", code: full });
    }
    const sleepers: Process[] = machine.processes();
    await Promise.all(sleepers.map((sleeper) => sleeper.signal(9)));
    for (const sleeper of sleepers) expect(await sleeper.exited).toMatchObject({ code: 137 });
    await empty(machine);
    await forgetSnapshots();
    await expectRoom();
  });

  test.each([true, false])("lets the machine that filled it stop; with its files kept: %s", async (snapshot) => {
    const machine = await bootFor(host());
    await sh(machine, fill);
    const stop = await machine.stop({ snapshot }).catch((error: unknown) => error);
    expect(await machine.ended).toMatchObject({ cause: "asked" });
    if (stop instanceof Error) expect(stop).toMatchObject({ name: "SandkeepError", code: full });
    await host().runtime.forget(machine.id);
    await forgetSnapshots();
    await expectRoom();
  });

  test("does not prevent closing a machine's network, which takes no room, but opening it", async () => {
    const machine = await bootFor(host(), { network: "allow-all" });
    // The egress process accepts a connection to this address, and refuses it only then.
    const reachesUs = async () =>
      (await run(machine, ["bash", "-c", "exec 3<>/dev/tcp/169.254.169.254/80"])).status.code === 0;
    expect(await reachesUs()).toBe(true);
    // At the path of the next record, since how full a disk must be for that to fail differs.
    const inTheWay = join(await folderOf(machine), "machine.json.new");
    await mkdir(inTheWay);
    await machine.setNetwork("deny-all");
    expect([machine.spec.network, await reachesUs()]).toEqual(["deny-all", false]);
    await expect(machine.setNetwork("allow-all")).rejects.toThrow(/^Cannot change the network: /);
    expect([machine.spec.network, await reachesUs()]).toEqual(["deny-all", false]);
    await rm(inTheWay, { recursive: true });
    await machine.setNetwork("allow-all");
    expect(await reachesUs()).toBe(true);
  });

  async function folderOf({ id }: Machine): Promise<string> {
    const machines = join(host().directory, "store/machines");
    const folders = (await readdir(machines)).map((name) => join(machines, name));
    const ids = await Promise.all(
      folders.map((folder) => readFile(join(folder, "machine.json"), "utf8").catch(String)),
    );
    const folder = folders[ids.findIndex((record) => record.includes(`"${id}"`))];
    if (folder === undefined) throw new Error(`Machine "${id}" has no folder`);
    return folder;
  }

  async function empty(machine: Machine): Promise<void> {
    for (const n of [1, 2, 3, 4]) await machine.files().remove(`/var/tmp/fill-${n}`, { force: true });
  }

  async function forgetSnapshots(): Promise<void> {
    const { snapshots } = host().runtime;
    for (const snapshot of await snapshots.list()) await snapshots.delete(snapshot.id);
    await snapshots.collect();
  }

  async function expectRoom(): Promise<void> {
    const alive = async () => (await run(await bootFor(host()), ["echo", "alive"])).stdout === "alive\n";
    await eventually("room for a machine", alive);
    await expectReconciled(host());
  }
});

function topOf(snapshot: SnapshotInfo): string {
  const [top] = snapshot.layers;
  if (top === undefined) throw new Error("The snapshot has no layer");
  return top;
}
