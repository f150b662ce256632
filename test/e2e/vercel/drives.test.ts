/** Drives through the newer SDK, the only one that has them: durable, written by one, read by many. */

import { Drive, Sandbox } from "@vercel/sandbox";
import { beforeAll, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { credentials, fetchTo, project } from "../clients.ts";
import { redirectThisProcess } from "../redirected-process.ts";

const daemon = daemonOfFile();
beforeAll(() => redirectThisProcess(daemon()));

test("a drive is made once, found again, listed and deleted", async () => {
  const auth = { ...credentials(daemon()), fetch: fetchTo(daemon()) };
  const drive = await Drive.getOrCreate({ ...auth, name: "made", maxSize: 2 ** 30, region: "fra1" });
  expect(drive.driveId).toMatch(/^drv_/);
  expect(drive).toMatchObject({ name: "made", projectId: project, region: "fra1", maxSize: 2 ** 30 });
  expect(drive.currentSessionId).toBeUndefined();
  const again = await Drive.getOrCreate({ ...auth, name: "made" });
  expect(again).toMatchObject({ driveId: drive.driveId, maxSize: 2 ** 30 });
  expect((await Drive.getOrCreate({ ...auth, name: "usual" })).maxSize).toBe(2 ** 40);
  for (const name of ["page-b", "page-c", "page-a"]) await Drive.getOrCreate({ ...auth, name });
  const byName = await Drive.list({ ...auth, sortBy: "name", namePrefix: "page-", sortOrder: "asc", limit: 2 });
  expect(byName.drives.map(({ name }) => name)).toEqual(["page-a", "page-b"]);
  expect((await Array.fromAsync(byName)).map(({ name }) => name)).toEqual(["page-a", "page-b", "page-c"]);
  const newest = await Drive.list({ ...auth, limit: 1 });
  expect(newest.drives.map(({ name }) => name)).toEqual(["page-a"]);
  for (const each of await Array.fromAsync(await Drive.list(auth))) await each.delete();
  expect((await Drive.list(auth)).drives).toEqual([]);
  await expect(drive.delete()).rejects.toMatchObject({ response: { status: 404 } });
});

test("what is written to a drive outlives the sandbox, and its snapshots do not have it", async () => {
  const auth = credentials(daemon());
  const drive = await Drive.getOrCreate({ ...auth, name: "durable" });
  const writer = await Sandbox.create({ ...auth, mounts: { "/data": drive } });
  expect(writer.mounts).toEqual({ "/data": { drive: "durable", mode: "read-write" } });
  await writer.writeFiles([{ path: "/data/file", content: "one\n" }]);
  const [attached] = (await Drive.list(auth)).drives;
  expect(attached).toMatchObject({
    currentSandboxName: writer.name,
    currentSessionId: writer.currentSession().sessionId,
  });
  await writer.stop();
  expect((await Drive.list(auth)).drives[0]?.currentSessionId).toBeUndefined();
  const copy = await Sandbox.create({
    ...auth,
    source: { type: "snapshot", snapshotId: writer.currentSnapshotId ?? "" },
  });
  expect(await copy.readFileToBuffer({ path: "/data/file" })).toBeNull();
  expect((await writer.readFileToBuffer({ path: "/data/file" }))?.toString()).toBe("one\n");
  await writer.delete();
  const next = await Sandbox.create({ ...auth, mounts: { "/elsewhere": { drive: "durable", mode: "read-write" } } });
  expect((await next.readFileToBuffer({ path: "/elsewhere/file" }))?.toString()).toBe("one\n");
  await Promise.all([copy.delete(), next.delete()]);
  await drive.delete();
});

test("one session at a time writes to a drive; others read its state from when they began", async () => {
  const auth = credentials(daemon());
  const drive = await Drive.getOrCreate({ ...auth, name: "shared" });
  const writer = await Sandbox.create({ ...auth, mounts: { "/data": drive } });
  const write = (content: string) => writer.writeFiles([{ path: "/data/file", content }]);
  await write("before");
  const conflict = { response: { status: 409 }, json: { error: { code: "conflict" } } };
  await expect(Sandbox.create({ ...auth, mounts: { "/data": drive } })).rejects.toMatchObject(conflict);
  await expect(drive.delete()).rejects.toMatchObject(conflict);
  const readers = await Promise.all(
    [1, 2].map(() => Sandbox.create({ ...auth, mounts: { "/data": drive.snapshot() } })),
  );
  await write("after");
  for (const reader of readers) {
    expect(reader.mounts).toEqual({ "/data": { drive: "shared", mode: "snapshot" } });
    expect((await reader.readFileToBuffer({ path: "/data/file" }))?.toString()).toBe("before");
    const refused = await reader.runCommand({ cmd: "touch", args: ["/data/new"], sudo: true });
    expect(refused.exitCode).not.toBe(0);
    expect(await refused.stderr()).toContain("Read-only");
  }
  await Promise.all([writer, ...readers].map((sandbox) => sandbox.delete()));
  await drive.delete();
});

test("mounts change for the next session, and a missing drive cannot be mounted", async () => {
  const auth = credentials(daemon());
  const drive = await Drive.getOrCreate({ ...auth, name: "later" });
  const sandbox = await Sandbox.create({ ...auth });
  await sandbox.update({ mounts: { "/mnt/later": drive } });
  expect((await sandbox.runCommand("test", ["-e", "/mnt/later"])).exitCode).toBe(1);
  await sandbox.stop();
  expect(await (await sandbox.runCommand("stat", ["-c", "%F", "/mnt/later"])).stdout()).toBe("directory\n");
  const missing = Sandbox.create({ ...auth, mounts: { "/data": { drive: "nobody", mode: "read-write" } } });
  await expect(missing).rejects.toMatchObject({ response: { status: 404 } });
  for (const path of ["relative", "/", "/data/../etc", "/data/"]) {
    const refused = Sandbox.create({ ...auth, mounts: { [path]: { drive: "later", mode: "snapshot" } } });
    await expect(refused, path).rejects.toMatchObject({ response: { status: 400 } });
  }
  for (const path of ["/etc/passwd", "/etc/passwd/below", "/usr/bin/env"]) {
    const refused = Sandbox.create({ ...auth, mounts: { [path]: { drive: "later", mode: "snapshot" } } });
    const message = "Cannot start the sandbox: mounting a drive: Not a directory";
    await expect(refused, path).rejects.toMatchObject({ response: { status: 400 }, json: { error: { message } } });
  }
  const overlap = { "/a": drive.snapshot(), "/a/b": drive.snapshot() };
  await expect(Sandbox.create({ ...auth, mounts: overlap })).rejects.toMatchObject({ response: { status: 400 } });
  await sandbox.update({ mounts: {} });
  await sandbox.delete();
  await drive.delete();
});

test("a drive holds no more than its size", async () => {
  const auth = credentials(daemon());
  const drive = await Drive.getOrCreate({ ...auth, name: "small", maxSize: 2 ** 24 });
  const sandbox = await Sandbox.create({ ...auth, persistent: false, mounts: { "/data": drive } });
  const fill = "head -c 50000000 /dev/urandom > /data/file; code=$?; sync; exit $code";
  const full = await sandbox.runCommand("sh", ["-c", fill]);
  expect(full.exitCode).not.toBe(0);
  await sandbox.delete();
  await drive.delete();
});

test("a sandbox whose drive was deleted says so, and runs again without it", async () => {
  const auth = credentials(daemon());
  const drive = await Drive.getOrCreate({ ...auth, name: "short-lived" });
  const sandbox = await Sandbox.create({ ...auth, mounts: { "/data": drive } });
  await sandbox.stop();
  await drive.delete();
  const message = 'Cannot mount drive "short-lived": it was deleted';
  await expect(sandbox.runCommand("true")).rejects.toMatchObject({
    response: { status: 400 },
    json: { error: { message } },
  });
  await sandbox.update({ mounts: {} });
  expect((await sandbox.runCommand("true")).exitCode).toBe(0);
  await sandbox.delete();
});
