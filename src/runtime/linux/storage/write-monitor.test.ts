/** The monitor finds data that the kernel lost on a real disk that was full for a moment. */

import { execFileSync } from "node:child_process";
import { closeSync, openSync, writeSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type SmallDisk, smallDisk } from "../../../../test/disks/small-disk.ts";
import { needs } from "../../../../test/runner/needs.ts";
import { closeStorage, isMounted, isReadOnly, openStorage } from "./storage.ts";
import { monitorPoint, WriteMonitor } from "./write-monitor.ts";

const needed = ["root", "the command mkfs.btrfs", "the file system btrfs", "the file system overlay"] as const;
const mebibyte = 2 ** 20;
const undo = new AsyncDisposableStack();
let disk: SmallDisk;
/** with characters that mean something in the options of a mount */
let dataDir: string;
let store: string;

beforeAll(async () => {
  disk = await smallDisk(undo, 900 * mebibyte);
  dataDir = join(disk.directory, "a b,c:d");
  store = join(dataDir, "store");
  await mkdir(dataDir);
  undo.defer(() => closeStorage(dataDir));
});
afterAll(() => undo.disposeAsync());

async function opened(): Promise<WriteMonitor> {
  const { isNewlyMounted } = await openStorage({ dataDir, kind: "image", imageSize: 600 * mebibyte });
  // A commit while the disk is full would make the store read-only, where no loss goes unseen.
  execFileSync("mount", ["-o", "remount,commit=300", store]);
  return WriteMonitor.open({ store, isMounted, isUnused: isNewlyMounted });
}

/** writes a file whose data the kernel cannot put on the disk, which is full for a while */
function loseData(name: string): void {
  const path = join(store, name);
  const file = openSync(path, "w");
  writeSync(file, Buffer.alloc(20 * mebibyte, 1));
  disk.fill(0);
  expect(() => execFileSync("sync", [path], { stdio: "ignore" })).toThrow();
  closeSync(file);
  disk.empty();
}

test("a loss is known to every later daemon until the store is mounted anew, also if another program heard of it", async (context) => {
  needs(context, ...needed);
  const first = await opened();
  expect(first.hasLost()).toBe(false);
  loseData("file");
  expect(first.hasLost()).toBe(true);
  first.close();
  if (!isReadOnly(store))
    execFileSync("sh", ["-c", 'sync --file-system "$1" || true', "sh", store], { stdio: "ignore" });
  const second = await opened();
  expect(second.hasLost()).toBe(true);
  second.close();
  await closeStorage(dataDir);
  expect([store, monitorPoint(store)].map(isMounted)).toEqual([false, false]);
  const third = await opened();
  expect(third.hasLost()).toBe(false);
  third.close();
});

test("a loss from before the monitor was mounted is known, as long as no other program has heard of it", async (context) => {
  needs(context, ...needed);
  const { isNewlyMounted } = await openStorage({ dataDir, kind: "image", imageSize: 600 * mebibyte });
  expect(isNewlyMounted).toBe(false);
  execFileSync("umount", [monitorPoint(store)]);
  loseData("other");
  for (let n = 0; n < 2; n++) {
    const monitor = await opened();
    expect(monitor.hasLost()).toBe(true);
    monitor.close();
  }
});
