/** Snapshots and forks through the vendor's SDKs: taken, booted from, kept, listed, deleted, and their family tree. */

import { beforeAll, describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { type AnySandbox, raw, waysTo } from "../clients.ts";
import { redirectThisProcess } from "../redirected-process.ts";

const daemon = daemonOfFile();
beforeAll(() => redirectThisProcess(daemon()));

const day = 86_400_000;

describe.each(waysTo(daemon))("$name", (way) => {
  const { Sandbox, Snapshot } = way;
  const isNewer = way.version === "3.5.0";
  const named = (name: string) => `${name}-${way.name.replace(/[^a-z0-9]+/gi, "-")}`;

  test("a snapshot ends its session, is what the sandbox resumes from, and boots other sandboxes", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, name: named("origin"), persistent: false });
    await sandbox.writeFiles([{ path: "file.txt", content: "captured" }]);
    const session = sandbox.currentSession();
    const before = Date.now();
    const snapshot = await sandbox.snapshot({ expiration: day });
    expect(snapshot.snapshotId).toMatch(/^snap_[A-Za-z0-9]{28}$/);
    expect(snapshot).toMatchObject({ status: "created", sourceSessionId: session.sessionId });
    expect(snapshot.sizeBytes).toBeGreaterThanOrEqual(0);
    expect(snapshot.createdAt.getTime()).toBeGreaterThanOrEqual(before);
    expect(snapshot.expiresAt?.getTime()).toBe(snapshot.createdAt.getTime() + day);
    expect(sandbox.status).toBe("snapshotting");
    await expect(session.runCommand("true")).rejects.toMatchObject({ response: { status: 410 } });
    await sandbox.writeFiles([{ path: "file.txt", content: "changed later" }]);
    expect(sandbox.currentSession().sourceSnapshotId).toBe(snapshot.snapshotId);
    const found = await Sandbox.get({ ...way.auth, name: sandbox.name });
    expect(found.currentSnapshotId).toBe(snapshot.snapshotId);
    const source = { type: "snapshot" as const, snapshotId: snapshot.snapshotId };
    const copies = await Promise.all([1, 2, 3].map(() => Sandbox.create({ ...way.auth, source, persistent: false })));
    for (const copy of copies) {
      expect(copy.sourceSnapshotId).toBe(snapshot.snapshotId);
      expect((await copy.readFileToBuffer({ path: "file.txt" }))?.toString()).toBe("captured");
      await copy.delete();
    }
    await sandbox.delete();
    await snapshot.delete();
  });

  test("a snapshot has the size of what was written, at once and wherever it is shown", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, name: named("large") });
    const length = 16_000_000;
    await sandbox.runCommand("sh", ["-c", `head -c ${length} /dev/urandom > large`]);
    const { snapshot } = await sandbox.stop();
    if (!snapshot) throw new Error("The stop took no snapshot");
    const found = await Snapshot.get({ ...way.auth, snapshotId: snapshot.id });
    const [listed] = (await sandbox.listSnapshots()).snapshots;
    for (const size of [snapshot.sizeBytes, found.sizeBytes, listed?.sizeBytes]) {
      expect(size).toBeGreaterThanOrEqual(length);
      expect(size).toBeLessThan(length + 2_000_000);
    }
    await sandbox.delete();
  });

  test("a snapshot can be read and deleted; then nothing boots from it but it is still listed", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, name: named("deleted") });
    const taken = await sandbox.snapshot();
    const found = await Snapshot.get({ ...way.auth, snapshotId: taken.snapshotId });
    expect(found).toMatchObject({ snapshotId: taken.snapshotId, status: "created", sizeBytes: taken.sizeBytes });
    expect(found.expiresAt?.getTime()).toBe(found.createdAt.getTime() + 30 * day);
    await found.delete();
    expect(found.status).toBe("deleted");
    const again = await Snapshot.get({ ...way.auth, snapshotId: taken.snapshotId });
    expect(again.status).toBe("deleted");
    const source = { type: "snapshot" as const, snapshotId: taken.snapshotId };
    const gone = { response: { status: 410 }, json: { error: { code: "snapshot_not_found" } } };
    await expect(Sandbox.create({ ...way.auth, source })).rejects.toMatchObject(gone);
    await expect(sandbox.runCommand("true")).rejects.toMatchObject(gone);
    const { snapshots } = await sandbox.listSnapshots();
    expect(snapshots.map(({ id, status }) => ({ id, status }))).toEqual([{ id: taken.snapshotId, status: "deleted" }]);
    await sandbox.delete();
    const unknown = Snapshot.get({ ...way.auth, snapshotId: `snap_${"0".repeat(28)}` });
    await expect(unknown).rejects.toMatchObject({ response: { status: 404 } });
    const refused = (await Sandbox.create({ ...way.auth, persistent: false })).snapshot({ expiration: 5 });
    await expect(refused).rejects.toMatchObject({
      json: {
        error: {
          message: "`expiration` must be 0 (no expiration) or >= 86400000 ms (1 day).",
        },
      },
    });
  });

  test("an expiration of 0 is for ever", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, snapshotExpiration: 0 });
    const { snapshot } = await sandbox.stop();
    expect(snapshot?.expiresAt).toBeUndefined();
    const manual = await sandbox.runCommand("true").then(() => sandbox.snapshot({ expiration: 2 * day }));
    expect(manual.expiresAt?.getTime()).toBe(manual.createdAt.getTime() + 2 * day);
    await sandbox.delete();
  });

  test("the last few snapshots are kept, the others are deleted", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, name: named("keep"), keepLastSnapshots: { count: 2 } });
    const taken = await generations(sandbox, 4);
    const listed = (await sandbox.listSnapshots()).snapshots;
    expect(listed.map(({ id }) => id)).toEqual(taken.toReversed());
    expect(listed.map(({ status }) => status)).toEqual(["created", "created", "deleted", "deleted"]);
    expect((await sandbox.readFileToBuffer({ path: "generation" }))?.toString()).toBe("3");
    await sandbox.delete();
  });

  test("snapshots beyond that number may be left to expire", async () => {
    const keepLastSnapshots = { count: 1, expiration: day, deleteEvicted: false };
    const sandbox = await Sandbox.create({ ...way.auth, name: named("evict"), keepLastSnapshots });
    await generations(sandbox, 2);
    const [newer, older] = (await sandbox.listSnapshots()).snapshots;
    expect(newer?.status).toBe("created");
    expect((newer?.expiresAt ?? 0) - (newer?.createdAt ?? 0)).toBe(day);
    expect(older?.status).toBe("created");
    expect((older?.expiresAt ?? 0) - (older?.createdAt ?? 0)).toBeGreaterThanOrEqual(30 * day);
    await sandbox.delete();
  });

  test("an older snapshot can be made the current one", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, name: named("back") });
    const [first] = await generations(sandbox, 2);
    await sandbox.update({ currentSnapshotId: first ?? "" });
    expect((await sandbox.readFileToBuffer({ path: "generation" }))?.toString()).toBe("0");
    const foreign = sandbox.update({ currentSnapshotId: `snap_${"0".repeat(28)}` });
    await expect(foreign).rejects.toMatchObject({ response: { status: 404 } });
    await sandbox.delete();
  });

  test("lists have pages, and can be limited to one sandbox", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, name: named("listed") });
    const taken = await generations(sandbox, 3);
    const own = await Array.fromAsync(await sandbox.listSnapshots({ limit: 2 }));
    expect(own.map(({ id }) => id)).toEqual(taken.toReversed());
    const oldestFirst = await sandbox.listSnapshots({ sortOrder: "asc", limit: 1 });
    expect(oldestFirst.snapshots.map(({ id }) => id)).toEqual([taken[0]]);
    const all = await Array.fromAsync(await Snapshot.list({ ...way.auth, limit: 50 }));
    expect(all.map(({ id }) => id)).toEqual(expect.arrayContaining(taken));
    expect(all.length).toBeGreaterThanOrEqual(3);
    const some = await Snapshot.list({ ...way.auth, name: sandbox.name });
    expect(some.snapshots.map(({ id }) => id)).toEqual(taken.toReversed());
    expect(own[0]).toMatchObject({ creationMethod: "automatic", parentId: taken[1] });
    await sandbox.delete();
  });

  test("the tree goes up to ancestors and down to descendants, with their siblings", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, name: named("tree") });
    const [first = "", second = "", third = ""] = await generations(sandbox, 3);
    const sibling = await Sandbox.create({ ...way.auth, source: { type: "snapshot", snapshotId: first } });
    const { snapshot } = await sibling.stop();
    const up = await Snapshot.tree({ ...way.auth, snapshotId: third, sortOrder: "desc" });
    expect(up.anchor).toMatchObject({ snapshot: { id: third }, siblings: [], count: "0" });
    expect(up.snapshots.map((node) => node.snapshot.id)).toEqual([second, first]);
    expect(up.snapshots[0]).toMatchObject({ siblings: [{ id: snapshot?.id }], count: "1" });
    expect(up.pagination).toEqual({ count: 2, next: null });
    const down = await Array.fromAsync(
      await Snapshot.tree({ ...way.auth, snapshotId: first, sortOrder: "asc", limit: 1 }),
    );
    expect(down.map((node) => node.snapshot.id)).toEqual([second, third]);
    await Promise.all([sandbox.delete(), sibling.delete()]);
  });

  test("a fork has the other's files and settings, except those that the request changes", async () => {
    const origin = await Sandbox.create({
      ...way.auth,
      name: named("forked"),
      ports: [3000],
      env: { A: "1", B: "2" },
      tags: { kind: "origin" },
      timeout: 600_000,
      resources: { vcpus: 4 },
    });
    await origin.writeFiles([{ path: "file.txt", content: "before" }]);
    const fresh = await Sandbox.fork({ ...way.auth, sourceSandbox: origin.name });
    expect(await fresh.readFileToBuffer({ path: "file.txt" })).toBeNull();
    await origin.stop();
    await origin.writeFiles([{ path: "file.txt", content: "after the snapshot" }]);
    const fork = await Sandbox.fork({ ...way.auth, sourceSandbox: origin.name, name: named("fork"), env: { C: "3" } });
    expect(fork).toMatchObject({
      name: named("fork"),
      status: "running",
      timeout: 600_000,
      vcpus: 4,
      tags: { kind: "origin" },
      sourceSnapshotId: origin.currentSnapshotId,
    });
    expect(fork.routes.map(({ port }) => port)).toEqual([3000]);
    expect(fork.routes[0]?.subdomain).not.toBe(origin.routes[0]?.subdomain);
    expect((await fork.readFileToBuffer({ path: "file.txt" }))?.toString()).toBe("before");
    expect(await (await fork.runCommand("sh", ["-c", 'echo "$A$B$C"'])).stdout()).toBe("3\n");
    await fork.writeFiles([{ path: "file.txt", content: "the fork's" }]);
    expect((await origin.readFileToBuffer({ path: "file.txt" }))?.toString()).toBe("after the snapshot");
    const taken = Sandbox.fork({ ...way.auth, sourceSandbox: origin.name, name: named("fork") });
    await expect(taken).rejects.toMatchObject({ response: { status: 400 } });
    const missing = Sandbox.fork({ ...way.auth, sourceSandbox: named("nobody") });
    await expect(missing).rejects.toMatchObject({ response: { status: 404 } });
    if (isNewer) {
      const other = await Sandbox.fork({ ...way.auth, sourceSandbox: origin.name, image: "vercel/sandbox/universal" });
      expect(await other.readFileToBuffer({ path: "file.txt" })).toBeNull();
      await other.delete();
    }
    await Promise.all([origin, fresh, fork].map((sandbox) => sandbox.delete()));
  });
});

test("version 3 of the endpoint keeps a snapshot for a week", async () => {
  const [way] = waysTo(daemon);
  if (!way) throw new Error("There is no SDK");
  const sandbox = await way.Sandbox.create({ ...way.auth });
  const path = `/v3/sandboxes/sessions/${sandbox.currentSession().sessionId}/snapshot`;
  const answer = await raw(daemon(), "POST", path);
  expect(answer).toMatchObject({
    status: 201,
    json: { snapshot: { status: "created" }, session: { status: "snapshotting" } },
  });
  const { createdAt, expiresAt, sourceSandboxId, sourceSessionId } = answer.json.snapshot;
  expect(expiresAt - createdAt).toBe(7 * day);
  expect(sourceSandboxId).toBe(sourceSessionId);
  await sandbox.delete();
});

/** writes, stops and resumes so many times; returns the remaining snapshots, oldest first */
async function generations(sandbox: AnySandbox, count: number): Promise<string[]> {
  const taken: string[] = [];
  for (let n = 0; n < count; n++) {
    await sandbox.writeFiles([{ path: "generation", content: String(n) }]);
    const { snapshot } = await sandbox.stop();
    taken.push(snapshot?.id ?? "");
  }
  return taken;
}
