/** Snapshots and forks of E2B's sandboxes, through its own SDK, unmodified. */

import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);

test("snapshots outlive their sandbox, are listed by sandbox and by name, and new sandboxes start from them", async () => {
  const sandbox = await Sandbox.create();
  const named = await sandbox.createSnapshot({ name: "first-one" });
  const other = await sandbox.createSnapshot();
  expect(named).toMatchObject({ names: ["default/first-one:default"], snapshotId: expect.stringMatching(/:default$/) });
  expect(await sandbox.listSnapshots().nextItems()).toEqual([other, named]);
  expect(await Sandbox.listSnapshots({ name: "first-one" }).nextItems()).toEqual([named]);
  const tagged = await sandbox.createSnapshot({ name: "default/first-one:v2" });
  expect(tagged.names).toEqual(["default/first-one:v2"]);
  await expect(sandbox.createSnapshot({ name: "other/first-one" })).rejects.toThrow("403");
  expect(await Sandbox.listSnapshots({ name: "default/first-one:v2" }).nextItems()).toEqual([tagged]);
  await sandbox.pause();
  await sandbox.kill();
  const names = [named.snapshotId, "first-one", "first-one:default", "default/first-one", "first-one:v2"];
  for (const template of names) {
    const copy = await Sandbox.create(template);
    expect(await copy.kill()).toBe(true);
  }
  expect(await Sandbox.deleteSnapshot(other.snapshotId)).toBe(true);
  expect(await Sandbox.deleteSnapshot(other.snapshotId)).toBe(false);
  expect(await Sandbox.deleteSnapshot("first-one:default")).toBe(true);
  expect(await Sandbox.deleteSnapshot("default/first-one:v2")).toBe(true);
  await expect(Sandbox.create("first-one")).rejects.toThrow("first-one");
  expect(await Sandbox.listSnapshots().nextItems()).toEqual([]);
});

test("forks are sandboxes of their own", async () => {
  const sandbox = await Sandbox.create({ metadata: { line: "fork" } });
  const forks = await sandbox.fork({ count: 2, timeoutMs: 60_000 });
  const ids = forks.map((fork) => (fork instanceof Sandbox ? fork.sandboxId : String(fork)));
  expect(new Set([sandbox.sandboxId, ...ids]).size).toBe(3);
  const listed = await Sandbox.list({ query: { metadata: { line: "fork" } } }).nextItems();
  expect(listed.map(({ sandboxId }) => sandboxId).toSorted()).toEqual([sandbox.sandboxId, ...ids].toSorted());
  for (const id of [sandbox.sandboxId, ...ids]) expect(await Sandbox.kill(id)).toBe(true);
});
