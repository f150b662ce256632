/** Our processes that outlive an upgrade: they are reported, and replaced if nothing depends on them. */

import { appendFileSync, copyFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { bootFor } from "../conformance/runtime/host.ts";
import { eventually, tempDir } from "../harness/harness.ts";
import { launcherPid, linuxHost } from "../harness/linux-host.ts";
import { guestBinary } from "../runner/needs.ts";

const host = linuxHost();

test("a launcher of another build is reported, runs while a sandbox needs it, and is then replaced", async () => {
  const guest = join(await tempDir(), "guest");
  copyFileSync(guestBinary, guest);
  appendFileSync(guest, "another build");
  const said: string[] = [];
  const logError = (error: unknown) => void said.push(String(error));
  const machine = await bootFor(host());
  const before = launcherPid(host());
  const runtime = await host().reopen({ guest, logError, pool: { hot: 1, warm: 1 } });
  await runtime.ready();
  expect(said.join("\n")).toContain(`The launcher (process ${before}) is of another build and keeps running`);
  expect(runtime.builds.others()).toEqual({ launcher: { pid: before, machines: [machine.id] } });
  expect(await runtime.builds.replace()).toEqual({});
  expect(launcherPid(host())).toBe(before);
  await runtime.machine(machine.id)?.stop();
  await eventually("the launcher is replaced", () => launcherPid(host()) !== before);
  expect(runtime.builds.others()).toEqual({});
  const next = await bootFor(host());
  expect((await next.files().stat("/")).type).toBe("directory");
  await next.stop();
  await host().reopen();
});

test("a boot that begins while the launcher is replaced waits for the new one", async () => {
  const guest = join(await tempDir(), "guest");
  copyFileSync(guestBinary, guest);
  appendFileSync(guest, "a third build");
  const machine = await bootFor(host());
  const before = launcherPid(host());
  const runtime = await host().reopen({ guest });
  const stopped = runtime.machine(machine.id)?.stop();
  const booted = [1, 2, 3].map(async (turn) => {
    await new Promise((resolve) => setTimeout(resolve, turn * 10));
    return bootFor(host());
  });
  await stopped;
  for (const each of await Promise.all(booted)) {
    expect((await each.files().stat("/")).type).toBe("directory");
    await each.stop();
  }
  await eventually("the launcher is replaced", () => launcherPid(host()) !== before);
});

test("a build that was installed after the daemon's start replaces nothing", async () => {
  const guest = join(await tempDir(), "guest");
  copyFileSync(guestBinary, guest);
  const runtime = await host().reopen({ guest });
  renameSync(guest, `${guest}.old`);
  copyFileSync(`${guest}.old`, guest);
  appendFileSync(guest, "another build");
  await expect(runtime.builds.replace()).rejects.toThrow(
    /another build was installed since this daemon began; restart/,
  );
  const machine = await bootFor(host());
  const before = launcherPid(host());
  await machine.stop();
  expect(launcherPid(host())).toBe(before);
  await host().reopen({ guest: guestBinary });
});
