/**
 * A data directory and its database belong together: a start with another database, an empty one or none is refused and
 * changes nothing, and `sandkeep recover` puts the files on record again.
 */

import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { beforeEach, expect, test } from "vitest";
import { startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { eventually, root, tempDir } from "../../harness/harness.ts";
import { startPostgres } from "../../harness/postgres.ts";
import { pauseTagged, raw } from "../clients.ts";
import { create, read, write } from "./kept-files.ts";

const undoable = () => new AsyncDisposableStack();
let daemon: TestDaemon;
let undo: AsyncDisposableStack;

beforeEach(async () => {
  undo = undoable();
  daemon = await startDaemon(undo);
  return () => undo.disposeAsync();
});

test("a start without the database file is refused, and everything is there again after an adoption", async () => {
  const running = await create(daemon, "running");
  await write(daemon, running, "kept", "of the running one");
  const stopped = await create(daemon, "stopped", { tags: { a: "b" }, ports: [3000] });
  await write(daemon, stopped, "kept", "of the stopped one");
  await raw(daemon, "POST", `/v2/sandboxes/sessions/${stopped}/stop`);
  const before = (await raw(daemon, "GET", "/v2/sandboxes/stopped")).json;
  const paused = await create(daemon, "paused", { tags: { is: "paused" } });
  await write(daemon, paused, "/dev/shm/kept", "in memory");
  await pauseTagged(daemon, "is", "paused");
  await daemon.stop();
  moveDatabase("away");

  const refused = await daemon.start().catch((error: Error) => error.message);
  expect(refused).toMatch(/its database ".*sandkeep\.db" is missing\. Restore it from a backup; or run "/);
  expect(existsSync(join(daemon.dataDir, "sandkeep.db"))).toBe(false);

  // The command of the message has the directories of this daemon.
  const [, command = ""] = /or run "([^"]+)", which lists/.exec(String(refused)) ?? [];
  const listed = spawnSync("/bin/sh", ["-c", command], { env: { PATH: process.env.PATH }, encoding: "utf8" });
  expect(listed).toMatchObject({ status: 0, stderr: "" });
  expect(listed.stdout).toContain(`To put all of it on record, run: ${command} --adopt\n`);
  const snapshotOf = (sandbox: string) => ({
    ...{ kind: "snapshot", id: expect.any(String), sandbox },
    ...{ size: expect.any(Number), createdAt: expect.any(String) },
  });
  const { unknown, damaged } = JSON.parse(recover("--json").stdout);
  expect(damaged).toEqual([]);
  expect(unknown).toHaveLength(5);
  expect(unknown).toEqual(
    expect.arrayContaining([
      { kind: "machine", id: running, sandbox: "running" },
      { kind: "machine", id: paused, sandbox: "paused", isPaused: true },
      { kind: "machine", id: stopped, sandbox: "stopped", endedAt: expect.any(String) },
      snapshotOf("stopped"),
      snapshotOf("paused"),
    ]),
  );
  expect(listed.stdout).toMatch(/^machine {3}sbx_\w+ {2}of sandbox "running", running$/m);
  expect(listed.stdout).toMatch(/^machine {3}sbx_\w+ {2}of sandbox "paused", paused$/m);
  expect(listed.stdout).toMatch(/^snapshot {2}\w+ {2}of sandbox "stopped", [\d.]+ [kM]B, /m);
  expect(existsSync(join(daemon.dataDir, "sandkeep.db"))).toBe(false);

  expect(recover("--adopt").stdout).toContain("Adopted 3 sandboxes, 3 sessions, 2 snapshots, 0 drives.");
  await daemon.start();
  const now = (await raw(daemon, "GET", "/v2/sandboxes/stopped")).json;
  expect(now.sandbox).toMatchObject({ tags: { a: "b" }, currentSnapshotId: before.sandbox.currentSnapshotId });
  expect(now.routes).toEqual(before.routes);
  expect(await read(daemon, "stopped", "kept")).toBe("of the stopped one");
  expect((await raw(daemon, "GET", "/v2/sandboxes/running")).json.session).toMatchObject({
    id: running,
    status: "running",
  });
  expect(await read(daemon, "running", "kept")).toBe("of the running one");
  // A paused one is still paused, with its memory.
  expect((await raw(daemon, "GET", "/v2/sandboxes/paused")).json).toMatchObject({ sandbox: { status: "stopped" } });
  expect(await read(daemon, "paused", "/dev/shm/kept")).toBe("in memory");
  expect((await raw(daemon, "GET", "/v2/sandboxes/paused")).json.session).toMatchObject({
    id: paused,
    status: "running",
  });
});

test("a start with another database is refused, and nothing is stopped or deleted", async () => {
  const id = await create(daemon, "mine");
  await write(daemon, id, "kept", "mine");
  const postgres = await startPostgres(undo);
  const url = await postgres.freshDatabase();
  await daemon.stop();
  const refused = await daemon.start({ SANDKEEP_DATABASE_URL: url }).catch((error: Error) => error.message);
  expect(refused).toMatch(/it has been used with another database than "postgres:.*", which is new or empty/);

  // Another daemon's database, this time.
  const other = await startDaemon(undo, { SANDKEEP_DATABASE_URL: url });
  await other.stop();
  const forgotten = await other.start({ SANDKEEP_DATABASE_URL: "" }).catch((error: Error) => error.message);
  expect(forgotten).toContain("it was used with PostgreSQL. Set SANDKEEP_DATABASE_URL to that database");
  const foreign = await daemon.start().catch((error: Error) => error.message);
  expect(foreign).toContain("belongs to another data directory");
  expect(recover("--adopt", { SANDKEEP_DATABASE_URL: url }).stderr).toContain("belongs to another data directory");

  await daemon.start({ SANDKEEP_DATABASE_URL: "" });
  expect((await raw(daemon, "GET", "/v2/sandboxes/mine")).json.session).toMatchObject({ id, status: "running" });
  expect(await read(daemon, "mine", "kept")).toBe("mine");
});

test("files that a restored backup of the database does not know are kept, reported and adopted", async () => {
  const old = await create(daemon, "old");
  await write(daemon, old, "kept", "before");
  await daemon.stop();
  copyDatabase("sandkeep.db", "backup.db");
  await daemon.start();
  await write(daemon, old, "kept", "after");
  const captured = await raw(daemon, "POST", `/v2/sandboxes/sessions/${old}/snapshot`);
  expect(captured.status).toBeLessThan(300);
  const fresh = await create(daemon, "new");
  await write(daemon, fresh, "kept", "of the new one");
  await daemon.stop();
  copyDatabase("backup.db", "sandkeep.db");
  const snapshots = join(daemon.dataDir, "store/snapshots");

  await daemon.start();
  const unknown = /The database does not know 1 machine.* of the data directory/;
  await expect.poll(() => daemon.complaints()).toMatch(unknown);
  expect((await raw(daemon, "GET", "/v2/sandboxes/new")).status).toBe(404);
  const there = readdirSync(snapshots);
  await daemon.stop();
  expect(readdirSync(snapshots)).toEqual(expect.arrayContaining(there));

  expect(recover("--adopt").stdout).toContain('adopted sandbox "new"');
  await daemon.start();
  expect((await raw(daemon, "GET", "/v2/sandboxes/new")).json.session).toMatchObject({ id: fresh, status: "running" });
  expect(await read(daemon, "new", "kept")).toBe("of the new one");
  expect(await read(daemon, "old", "kept")).toBe("after");
});

test("data of a version without identities gets one silently; with an empty database it is refused", async () => {
  const id = await create(daemon, "older");
  await write(daemon, id, "kept", "older");
  await daemon.stop();
  forgetIdentity();
  await daemon.start();
  expect((await raw(daemon, "GET", "/v2/sandboxes/older")).json.session).toMatchObject({ id, status: "running" });
  expect(JSON.parse(readFileSync(join(daemon.dataDir, "identity.json"), "utf8")).id).toMatch(/^[0-9a-f-]{36}$/);
  expect(daemon.complaints()).toBe("");

  await daemon.stop();
  forgetIdentity();
  rmSync(join(daemon.dataDir, "recovery"), { recursive: true });
  moveDatabase("away");
  const refused = await daemon.start().catch((error: Error) => error.message);
  expect(refused).toMatch(/it holds 1 machine and 0 snapshots, and the database ".*" knows none of them/);
  // It has no description, so it gets a sandbox of its own.
  const adopted = recover("--adopt").stdout;
  expect(adopted).toContain("Adopted 1 sandbox, 1 session, 0 snapshots, 0 drives.");
  const [, name = ""] = /adopted sandbox "(recovered-\w+)"/.exec(adopted) ?? [];
  await daemon.start();
  await eventually("it runs", async () => (await raw(daemon, "GET", `/v2/sandboxes/${name}`)).json.session.id === id);
  const script = { command: "cat", args: ["/vercel/kept"], wait: true, logs: true };
  expect((await raw(daemon, "POST", `/v2/sandboxes/sessions/${id}/cmd`, { body: script })).text).toContain("older");
});

test("recover does not touch a running daemon, or a folder that no daemon has used", async () => {
  expect(recover().stderr).toMatch(/^sandkeep: Cannot recover .*: another daemon uses it/);
  const folder = await tempDir();
  writeFileSync(join(folder, "notes.txt"), "");
  for (const flags of [[], ["--adopt"]]) {
    const refused = recover(...flags, { SANDKEEP_DATA_DIR: folder });
    expect(refused.status).toBe(1);
    expect(refused.stderr).toContain(`sandkeep: Cannot recover "${folder}": it is not a data directory`);
    expect(readdirSync(folder)).toEqual(["notes.txt"]);
  }
});

function recover(...args: (string | Record<string, string>)[]) {
  const flags = args.filter((arg) => typeof arg === "string");
  const settings = args.find((arg) => typeof arg === "object") ?? {};
  const env = { ...process.env, SANDKEEP_DATA_DIR: daemon.dataDir, SANDKEEP_RUN_DIR: daemon.runDir, ...settings };
  return spawnSync(process.execPath, [join(root, "src/main.ts"), "recover", ...flags], { env, encoding: "utf8" });
}

function moveDatabase(suffix: string): void {
  for (const name of ["sandkeep.db", "sandkeep.db-wal", "sandkeep.db-shm"]) {
    const path = join(daemon.dataDir, name);
    if (existsSync(path)) renameSync(path, `${path}.${suffix}`);
  }
}

/** whole, as it is closed */
function copyDatabase(from: string, to: string): void {
  for (const end of ["-wal", "-shm"]) rmSync(join(daemon.dataDir, `${to}${end}`), { force: true });
  // Closed at once: closed later, it would write its log into the file that has taken its place.
  const database = new DatabaseSync(join(daemon.dataDir, from));
  database.exec("pragma wal_checkpoint(truncate)");
  database.close();
  copyFileSync(join(daemon.dataDir, from), join(daemon.dataDir, to));
}

function forgetIdentity(): void {
  rmSync(join(daemon.dataDir, "identity.json"));
  const database = new DatabaseSync(join(daemon.dataDir, "sandkeep.db"));
  database.exec("delete from identity");
  database.close();
}
