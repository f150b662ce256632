/** The disk limit of a sandbox is for all its sessions together, and df inside shows it. */

import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { bootFor } from "../conformance/runtime/host.ts";
import { sh } from "../conformance/runtime/run.ts";
import { eventually } from "../harness/harness.ts";
import { linuxHost } from "../harness/linux-host.ts";
import { loopDevicesOn } from "../harness/traces.ts";

const mebibyte = 1 << 20;
const disk = 100 * mebibyte;
const limits = { disk };
const host = linuxHost();

test("files of earlier sessions count, on every way to boot, and df agrees", async () => {
  const line = "sandbox-resumed";
  const first = await bootFor(host(), { limits, line });
  expect(await fill(first, "a", 70)).toBe(70 * mebibyte);
  const second = await bootFor(host(), { limits, line, root: await stopped(first) });
  const [size, used, free] = await df(second);
  expect([size, used + free]).toEqual([disk, disk]);
  expect(used).toBeGreaterThan(70 * mebibyte);
  expect(used).toBeLessThan(75 * mebibyte);
  expect(await fill(second, "b", 70)).toBeLessThanOrEqual(30 * mebibyte);
  expect((await df(second))[2]).toBeLessThan(3 * mebibyte);
  const third = await bootFor(host(), { limits, line, root: await stopped(second) });
  expect(await fill(third, "c", 70)).toBeLessThan(2 * mebibyte);
  // A sandbox that is full to its limit can be used and emptied, and its next session can have a higher limit.
  expect((await sh(third, "rm /var/tmp/c; cat /var/tmp/a | wc -c")).stdout).toBe(`${70 * mebibyte}\n`);
  const fourth = await bootFor(host(), { limits: { disk: 2 * disk }, line, root: await stopped(third) });
  expect(await fill(fourth, "c", 70)).toBe(70 * mebibyte);
  expect((await df(fourth))[0]).toBe(2 * disk);
  await fourth.stop();
});

test("a fork has a limit of its own, and its writes do not count for the sandbox that it was made of", async () => {
  const line = "sandbox-forked";
  const first = await bootFor(host(), { limits, line });
  await fill(first, "a", 70);
  const root = await stopped(first);
  const fork = await bootFor(host(), { limits, line: "its-fork", root });
  expect(await fill(fork, "b", 70)).toBe(70 * mebibyte);
  const second = await bootFor(host(), { limits, line, root });
  expect(await fill(second, "b", 20)).toBe(20 * mebibyte);
  await Promise.all([fork.stop(), second.stop()]);
});

test("a file of an earlier session counts until neither the sandbox nor a snapshot has it", async () => {
  const line = "sandbox-emptied";
  const first = await bootFor(host(), { limits, line });
  await fill(first, "a", 70);
  const root = await stopped(first);
  const second = await bootFor(host(), { limits, line, root });
  await sh(second, "rm /var/tmp/a");
  expect(await fill(second, "b", 70)).toBeLessThanOrEqual(30 * mebibyte);
  await host().runtime.snapshots.delete(root.snapshot);
  await host().runtime.snapshots.collect();
  await eventually("the room is free", async () => (await fill(second, "b", 70)) === 70 * mebibyte);
  await second.stop();
});

test("a deleted sandbox is no longer counted", async () => {
  const line = "sandbox-gone";
  const before = counted();
  const first = await bootFor(host(), { limits, line });
  await fill(first, "a", 10);
  const root = await stopped(first);
  const second = await bootFor(host(), { limits, line, root });
  await fill(second, "b", 10);
  expect(counted()).toBe(before + 1);
  await second.stop();
  await host().runtime.forget(second.id);
  await host().runtime.snapshots.delete(root.snapshot);
  await eventually("the group of its line is gone", async () => {
    await host().reopen();
    return counted() === before;
  });
});

/** number of quota groups that the kernel has for lines of the store */
function counted(): number {
  const [device = ""] = loopDevicesOn(host().directory);
  const folder = readdirSync("/sys/fs/btrfs").find((name) => {
    return name.includes("-") && readdirSync(join("/sys/fs/btrfs", name, "devices")).includes(basename(device));
  });
  return readdirSync(join("/sys/fs/btrfs", folder ?? "", "qgroups")).filter((name) => name.startsWith("1_")).length;
}

/** bytes of a file after writing as much of it as possible */
async function fill(machine: Machine, name: string, mebibytes: number): Promise<number> {
  const file = `/var/tmp/${name}`;
  const { stdout } = await sh(machine, `head -c ${mebibytes}M /dev/zero > ${file}; stat -c %s ${file}`);
  return Number(stdout);
}

async function stopped(machine: Machine): Promise<{ snapshot: string }> {
  const { snapshot } = await machine.stop({ snapshot: true });
  if (!snapshot) throw new Error("There is no snapshot");
  return { snapshot: snapshot.id };
}

async function df(machine: Machine): Promise<[number, number, number]> {
  const { stdout } = await sh(machine, "df -B1 --output=size,used,avail / | tail -1");
  const [size = 0, used = 0, free = 0] = stdout.trim().split(/ +/).map(Number);
  return [size, used, free];
}
