/** Damaged files: a start either repairs them or sets them aside and serves, or names the file and ends in seconds. */

import { execFile, execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { expectNothingLeft } from "../../harness/linux-host.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { raw } from "../clients.ts";
import { create, read, write } from "./kept-files.ts";

const undo = new AsyncDisposableStack();
let daemon: TestDaemon;
let running: string;
let stopped: string;

beforeAll(async () => {
  daemon = await startDaemon(undo);
  running = await create(daemon, "running");
  await write(daemon, running, "kept", "of the running one");
  stopped = await create(daemon, "stopped");
  await write(daemon, stopped, "kept", "of the stopped one");
  expect((await raw(daemon, "POST", `/v2/sandboxes/sessions/${stopped}/stop`)).status).toBeLessThan(300);
});
afterAll(() => undo.disposeAsync());

test("damaged lines of the ledger are skipped, and everything keeps running", async () => {
  await daemon.stop();
  const path = join(daemon.dataDir, "ledger.jsonl");
  const [first = "", ...rest] = readFileSync(path, "utf8").split("\n");
  writeFileSync(path, [`${first.slice(0, first.length / 2)}\0\0`, "[]", ...rest].join("\n"));
  await daemon.start();
  await expect.poll(() => daemon.complaints()).toContain(`The ledger "${path}" was damaged`);
  expect(existsSync(`${path}.damaged`)).toBe(true);
  await expectAll();
});

test("an empty record of a machine neither ends it nor deletes its files", async () => {
  const pid = recordOf(running).pid;
  await daemon.stop();
  truncateSync(join(folderOf(running), "machine.json"), 0);
  await daemon.start();
  await expect
    .poll(() => daemon.complaints())
    .toMatch(/The record ".*machine\.json" was damaged and has been made again/);
  expect(recordOf(running).pid).toBe(pid);
  await expectAll();
});

test.each<[string, (path: string) => void]>([
  ["damaged", (path) => truncateSync(path, 0)],
  ["gone", (path) => rmSync(path)],
])(
  "a record of a machine that is %s, like its copy, is made again from its spare, and the machine keeps running",
  async (_, damage) => {
    const { pid } = recordOf(running);
    const [record = "", copy = ""] = recordsOf(running);
    await daemon.stop();
    for (const path of [record, copy]) damage(path);
    await daemon.start();
    expect(recordOf(running).pid).toBe(pid);
    await expectAll();
  },
);

test("damaged copies of a good record are written again at the next start", async () => {
  const [record = "", ...copies] = recordsOf(running);
  await daemon.stop();
  for (const path of copies) writeFileSync(path, "garbage");
  await daemon.start();
  const { id } = JSON.parse(readFileSync(record, "utf8"));
  for (const path of copies) expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject({ id });
});

test("a machine without any good record is left alone with its files, and found again once one is restored", async () => {
  const { pid } = recordOf(running);
  const [record = "", ...copies] = recordsOf(running);
  const good = readFileSync(record);
  await daemon.stop();
  for (const path of [record, ...copies]) truncateSync(path, 0);
  await daemon.start();
  await expect.poll(() => daemon.complaints()).toMatch(/The record ".*machine\.json" is damaged and has no good copy/);
  expect(existsSync(`/proc/${pid}`)).toBe(true);
  expect(readFileSync(`${record}.damaged`, "utf8")).toBe("");
  // Its sandbox does not start again from its image without its owner's knowledge.
  const refused = await raw(daemon, "GET", "/v2/sandboxes/running?resume=true");
  expect(refused.status).toBe(409);
  expect(refused.json.error.message).toContain("its files may be those of a machine whose record is damaged");
  await daemon.stop();
  const { stdout } = await promisify(execFile)(sandkeepCommand(), ["recover", "--data-dir", daemon.dataDir], {
    env: { ...process.env, SANDKEEP_RUN_DIR: daemon.runDir },
  });
  expect(stdout).toContain(`damaged   "${record}.damaged": restore "${record}" from a backup`);
  // Only a daemon with --stop-all ends it, and even then its files stay.
  await daemon.start({ SANDKEEP_STOP_ALL: "true" });
  expect(existsSync(`/proc/${pid}`)).toBe(true);
  await daemon.stop();
  expect(existsSync(`/proc/${pid}`)).toBe(false);
  await expectNothingLeft(daemon.dataDir, []);
  await daemon.start({ SANDKEEP_STOP_ALL: "false" });
  await daemon.stop();
  writeFileSync(record, good);
  await daemon.start();
  await expect
    .poll(() => daemon.complaints())
    .toMatch(new RegExp(`The machine of session "${running}" was found again: its files are snapshot "snap_`));
  expect(await read(daemon, "running", "kept")).toBe("of the running one");
});

test("empty records of snapshots are made again from their layers, and those of images from their copies", async () => {
  const store = join(daemon.dataDir, "store");
  await daemon.kill9(); // a stop would unmount the store, as nothing runs
  for (const folder of ["snapshots", "images"]) {
    for (const name of readdirSync(join(store, folder)).filter((name) => /^[^.].*\.json$/.test(name))) {
      truncateSync(join(store, folder, name), 0);
    }
  }
  await daemon.start();
  expect(await read(daemon, "stopped", "kept")).toBe("of the stopped one");
  await create(daemon, "after-the-damage");
});

test("a missing record of a snapshot is made again from its layer, and the log says so", async () => {
  const store = join(daemon.dataDir, "store/snapshots");
  await daemon.kill9();
  const records = readdirSync(store).filter((name) => /^[^.].*\.json$/.test(name));
  for (const name of records) rmSync(join(store, name));
  await daemon.start();
  await expect.poll(() => daemon.complaints()).toContain("was missing and has been made again from its layer");
  expect(await read(daemon, "stopped", "kept")).toBe("of the stopped one");
});

test("a snapshot whose record is lost for good affects nothing else", async () => {
  const lost = await create(daemon, "lost");
  const { json } = await raw(daemon, "POST", `/v2/sandboxes/sessions/${lost}/stop`);
  expect(json.snapshot).toBeDefined();
  await daemon.kill9();
  const store = join(daemon.dataDir, "store/snapshots");
  const [newest = ""] = readdirSync(store)
    .filter((name) => /^[^.].*\.json$/.test(name))
    .sort((a, b) => createdAt(join(store, b)) - createdAt(join(store, a)));
  // A layer has a copy of its snapshot's record.
  const { layers } = JSON.parse(readFileSync(join(store, newest), "utf8"));
  const copies = layers.map((id: string) => join(daemon.dataDir, "store/layers", id, "layer.json"));
  for (const path of [join(store, newest), ...copies]) truncateSync(path, 0);
  await daemon.start();
  await expect
    .poll(() => daemon.complaints())
    .toContain(`The record "${join(store, newest)}" is damaged and has no good copy`);
  expect((await raw(daemon, "GET", "/v2/sandboxes/lost?resume=true")).status).toBeGreaterThanOrEqual(400);
  expect(await read(daemon, "stopped", "kept")).toBe("of the stopped one");
  await raw(daemon, "DELETE", "/v2/sandboxes/lost");
  await create(daemon, "beside-the-lost");
});

test("a start makes a read-only store writable", async () => {
  await using mine = new AsyncDisposableStack();
  const other = await startDaemon(mine);
  await other.kill9();
  const store = join(other.dataDir, "store");
  execFileSync("mount", ["-o", "remount,ro", store]);
  await other.start();
  const made = await raw(other, "POST", "/v3/sandboxes", { body: { name: "writable" } });
  expect(made.status, made.text).toBe(200);
});

async function expectAll(): Promise<void> {
  expect((await raw(daemon, "GET", "/v2/sandboxes/running")).json.session).toMatchObject({
    id: running,
    status: "running",
  });
  expect(await read(daemon, "running", "kept")).toBe("of the running one");
}

function folderOf(session: string): string {
  const machines = join(daemon.dataDir, "store/machines");
  const folders = readdirSync(machines).map((name) => join(machines, name));
  const found = folders.find((folder) => {
    const path = join(folder, "machine.json");
    return existsSync(path) && readFileSync(path, "utf8").includes(session);
  });
  if (found === undefined) throw new Error(`No machine has the id "${session}"`);
  return found;
}

/** its record, the copy beside it and the one outside the store */
function recordsOf(session: string): string[] {
  const folder = folderOf(session);
  const beside = ["machine.json", ".machine.json.copy"].map((name) => join(folder, name));
  return [...beside, join(daemon.dataDir, "records", `${basename(folder)}.json`)];
}

function recordOf(session: string): { pid: number } {
  return JSON.parse(readFileSync(join(folderOf(session), "machine.json"), "utf8"));
}

function createdAt(path: string): number {
  return JSON.parse(readFileSync(path, "utf8")).createdAt;
}
