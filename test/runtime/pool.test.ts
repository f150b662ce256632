/**
 * The Linux runtime with a pool of prepared machines: those out of the pool are like all others, and none is left over.
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import { vercelConventions } from "../../src/api/vercel/conventions.ts";
import type { Files, Machine } from "../../src/core/ports/runtime.ts";
import { importImage } from "../../src/runtime/linux/oci/import.ts";
import { adoptSuite } from "../conformance/runtime/adopt.ts";
import { bootFor, expectReconciled } from "../conformance/runtime/host.ts";
import { run, sh } from "../conformance/runtime/run.ts";
import { eventually } from "../harness/harness.ts";
import { tarOf } from "../harness/images/image-archives.ts";
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

  test("keeps a machine of an image that is used again, as long as its name stands for that content", async () => {
    const { runtime, directory } = host();
    const store = join(directory, "store");
    const stores = { store, layers: runtime.layers, images: runtime.images, conventions: vercelConventions.image };
    const busybox = await readFile("/bin/busybox");
    const put = async (word: string) => {
      const tar = await tarOf([
        { name: "bin/cat", content: busybox, mode: 0o755 },
        { name: "word", content: `${word}\n` },
      ]);
      return importImage(stores, Readable.from([tar]), { name: "app", node: false });
    };
    const words = async (count: number) => {
      const read: string[] = [];
      for (let n = 0; n < count; n++) {
        const machine = await bootFor(host(), { root: { image: "app" } });
        read.push((await run(machine, ["/bin/cat", "/word"])).stdout.trim());
        await runtime.ready();
      }
      return read;
    };
    const waiting = () => preparedMachines().filter((name) => isBootedFromApp(name));
    const isBootedFromApp = (name: string) => existsSync(join(store, "machines", name, "volume/fs/word"));
    const used = () => runtime.machines().length;

    await put("first");
    expect(await words(1)).toEqual(["first"]);
    expect(waiting()).toHaveLength(1);
    expect(await words(2)).toEqual(["first", "first"]);
    // The three that are used, and the one that waits.
    expect(waiting()).toHaveLength(4);
    expect(preparedMachines()).toHaveLength(used() + 4);

    await put("second");
    expect(await words(2)).toEqual(["second", "second"]);
    await runtime.images.delete("app");
    await eventually("none waits", () => waiting().length === 5);
    await expect(bootFor(host(), { root: { image: "app" } })).rejects.toThrow("there is no such image");
    // The same content again is the same version, whose layers may have been deleted meanwhile.
    await put("second");
    expect(await words(3)).toEqual(["second", "second", "second"]);
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
