/**
 * Many commands, much output and many machines leave nothing behind in the agent, the launcher and the daemon. How many is
 * for the test files to say: leaks.test.ts has enough to find what each leaves, leaks.slow.test.ts what few of them leave.
 */

import { readdirSync, readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { bootFor, expectReconciled } from "../conformance/runtime/host.ts";
import { gather, run, start } from "../conformance/runtime/run.ts";
import { eventually } from "../harness/harness.ts";
import { agentPid, launcherPid, linuxHost, stayersOf } from "../harness/linux-host.ts";

const mebibyte = 1 << 20;

export interface Amounts {
  commands: number;
  /** of output, in MiB */
  output: number;
  machines: number;
}

export function expectNoLeaks({ commands, output, machines }: Amounts): void {
  const host = linuxHost();

  test(`${commands} commands, some of which cannot run, leave no descriptor, process or memory`, async () => {
    const machine = await bootFor(host());
    const agent = agentPid(host(), machine.id);
    const round = async (count: number) => {
      for (let n = 0; n < count; n++) {
        if (n % 50 === 0) await expect(run(machine, ["nosuch"])).rejects.toThrow();
        else if (n % 50 === 1) await run(machine, ["true"], { pty: { rows: 1, columns: 1 } });
        else if (n % 50 === 2) await run(machine, ["cat"], { stdin: true, timeLimit: 1 });
        else await (await start(machine, ["/bin/true"])).exited;
      }
    };
    await round(200);
    const before = { fds: descriptors(agent), memory: memoryOf(agent), own: descriptors("self") };
    const heap = held();
    await round(commands);
    await eventually("the agent has closed everything", () => descriptors(agent) === before.fds);
    expect(memoryOf(agent) - before.memory).toBeLessThan(256 << 10);
    expect(descriptors("self")).toBe(before.own);
    expect(held() - heap).toBeLessThan(4 * mebibyte);
    expect((await machine.usage()).processes).toBe(1);
    expect(machine.processes()).toEqual([]);
  });

  test(`${output} MiB of output grow neither the agent nor the daemon, and are all accounted for`, async () => {
    const machine = await bootFor(host());
    const agent = agentPid(host(), machine.id);
    const bound = 8 * mebibyte;
    const total = output * mebibyte;
    await run(machine, ["head", "-c", `${16 * mebibyte}`, "/dev/zero"], { outputLimit: bound });
    const before = { agent: memoryOf(agent), daemon: memoryOf("self"), held: held() };
    const command = await start(machine, ["head", "-c", `${total}`, "/dev/zero"], { outputLimit: bound });
    let counted = 0;
    let most = 0;
    for await (const chunk of command.output()) {
      // Node frees what was read at its next garbage collection, which a busy machine may delay.
      if (Math.floor(counted / bound) < Math.floor((counted + chunk.data.length) / bound)) held();
      counted += chunk.data.length + (chunk.dropped ?? 0);
      most = Math.max(most, memoryOf("self"));
    }
    expect(await command.exited).toMatchObject({ code: 0, outputEnd: total });
    expect(counted).toBe(total);
    expect(memoryOf(agent) - before.agent).toBeLessThan(2 * mebibyte);
    expect(most - before.daemon).toBeLessThan(64 * mebibyte);
    await eventually("what was read is collected", () => held() - before.held < 4 * mebibyte);
    // and the same without a reader
    const unread = await start(machine, ["head", "-c", `${total}`, "/dev/zero"], { outputLimit: bound });
    await unread.exited;
    expect(memoryOf(agent) - before.agent).toBeLessThan(2 * mebibyte);
    const { length, dropped } = await gather(unread.output());
    expect(length + dropped).toBe(total);
    expect(length).toBeLessThanOrEqual(bound);
  });

  test(`${machines} machines one after the other leave no resource in the launcher and the daemon`, async () => {
    const { runtime } = host();
    const round = async (count: number) => {
      for (let n = 0; n < count; n++) {
        const machine = await host().boot();
        await run(machine, ["true"]);
        await machine.stop({ snapshot: n % 10 === 0 });
        await runtime.forget(machine.id);
      }
      for (const snapshot of await runtime.snapshots.list()) await runtime.snapshots.delete(snapshot.id);
      await runtime.snapshots.collect();
      await expectReconciled(host());
    };
    await round(30);
    const launcher = launcherPid(host());
    // A few processes stay, each with a descriptor; how many depends on how many copies there were at once.
    const settled = () => [descriptors(launcher) - stayersOf(launcher).length, descriptors("self")];
    const others = () => children(launcher) - stayersOf(launcher).length;
    await eventually("the launcher is quiet", () => others() <= 2);
    const before = settled();
    const memory = memoryOf(launcher);
    await round(machines);
    await eventually("the same descriptors", () => {
      expect(settled()).toEqual(before);
      return true;
    });
    expect(memoryOf(launcher) - memory).toBeLessThan(mebibyte);
    await eventually("every helper has been waited for", () => others() <= 2);
    expect(stayersOf(launcher).length).toBeLessThanOrEqual(5);
  });
}

function descriptors(pid: number | "self"): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** bytes of its private memory */
function memoryOf(pid: number | "self"): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^RssAnon:\s+(\d+)/m.exec(text)?.[1] ?? 0) * 1024;
}

function children(pid: number): number {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).length;
}

/** bytes that this process holds after a garbage collection */
function held(): number {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
