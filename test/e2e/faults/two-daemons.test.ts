/** Daemons on one host do not touch each other's files and processes, and leave nothing behind when they end. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startDaemon } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { processesOf } from "../../harness/traces.ts";
import { create } from "./kept-files.ts";

test("a store is unmounted when its own daemon ends, whatever else runs on the host", async () => {
  const first = await started({ SANDKEEP_STOP_ALL: "true" });
  await create(first, "mine");
  const second = await started();
  await create(second, "other");
  await first.stop();
  await eventually("no loop device has the store", () => !isInUse(join(first.dataDir, "store.btrfs")));
  expect(isInUse(join(second.dataDir, "store.btrfs"))).toBe(true);
});

test("a daemon that stops while nothing runs leaves no process, no mount and no folder of sockets", async () => {
  const daemon = await started();
  await daemon.stop();
  expect(processesOf(daemon.dataDir)).toEqual([]);
  await eventually("no loop device has the store", () => !isInUse(join(daemon.dataDir, "store.btrfs")));
  await daemon.start();
  expect(await create(daemon, "later")).toMatch(/^sbx_/);
});

async function started(settings = {}) {
  const undo = new AsyncDisposableStack();
  onTestFinished(() => undo.disposeAsync());
  return startDaemon(undo, settings);
}

function isInUse(file: string): boolean {
  return readdirSync("/sys/block").some((name) => {
    const path = `/sys/block/${name}/loop/backing_file`;
    return existsSync(path) && readFileSync(path, "utf8").trim() === file;
  });
}
