/**
 * The store is read-only while a daemon runs: callers get the reason and that it comes back by itself, with 507 while
 * the disk is short of room and with 503 otherwise.
 */

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type SmallDisk, smallDisk } from "../../disks/small-disk.ts";
import { startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { raw } from "../clients.ts";
import { create, read, write } from "./kept-files.ts";

const mebibyte = 2 ** 20;
const reserve = 160 * mebibyte;
const readOnly = "the store of all sandboxes is read-only, as a write to the disk below it failed";
const why = `${readOnly}; it is mounted again by itself once there is room: the host's disk has `;
const undo = new AsyncDisposableStack();
let disk: SmallDisk;
let daemon: TestDaemon;

beforeAll(async () => {
  disk = await smallDisk(undo, 1400 * mebibyte);
  daemon = await startDaemon(undo, { SANDKEEP_DISK_RESERVE: "160M" }, { folder: disk.directory });
});
afterAll(() => undo.disposeAsync());

test("commands, files and stops are refused with a sentence, and everything continues when there is room", async () => {
  const session = await create(daemon, "writer");
  await write(daemon, session, "kept", "acknowledged");
  const path = `/v2/sandboxes/sessions/${session}`;
  expect((await raw(daemon, "POST", `${path}/stop`)).status).toBe(200);
  const { json } = await raw(daemon, "GET", "/v2/sandboxes/writer?resume=true");
  const running = `/v2/sandboxes/sessions/${json.session.id}`;
  // While room is short the daemon leaves the store as it is.
  disk.fill(reserve / 4);
  await eventually("growth is refused", async () => (await tryCreate()).status === 507);
  makeReadOnly();
  const command = { command: "sh", args: ["-c", "true"], wait: true };
  const refused = await raw(daemon, "POST", `${running}/cmd`, { body: command });
  expect([refused.status, refused.json.error.message]).toEqual([
    507,
    expect.stringContaining(`Cannot run "sh": ${why}`),
  ]);
  const made = await raw(daemon, "POST", `${running}/fs/mkdir`, { body: { path: "folder" } });
  expect([made.status, made.json.error.message]).toEqual([507, expect.stringContaining(`Cannot use files: ${why}`)]);
  const stopped = await raw(daemon, "POST", `${running}/stop`);
  expect(stopped).toMatchObject({ status: 507, json: { error: { code: "insufficient_storage" } } });
  disk.empty();
  await eventually("the store is writable", () => !isReadOnly());
  await eventually("growth is allowed", async () => (await tryCreate()).status === 200);
  expect(await read(daemon, "writer", "kept")).toBe("acknowledged");
});

test("a boot that fails gives its caller the reason, and leaves neither a sandbox nor its name", async () => {
  // The daemon repairs the store within a second, so a create may come too late to fail.
  const refused = await eventually("a create meets the read-only store", async () => {
    await eventually("the store is writable", () => !isReadOnly());
    makeReadOnly();
    const answer = await tryCreate("unlucky");
    if (answer.status === 200) await raw(daemon, "DELETE", "/v2/sandboxes/unlucky");
    return answer.status !== 200 && answer;
  });
  // It may meet the store while the daemon repairs it.
  const said = [
    `Cannot start a sandbox: ${readOnly}; it is mounted again by itself in a moment`,
    "Cannot use sandboxes: their store became read-only and is being mounted again",
  ];
  expect([refused.status, refused.json.error.code], refused.text).toEqual([503, "service_unavailable"]);
  expect(said).toContain(refused.json.error.message);
  expect((await raw(daemon, "GET", "/v2/sandboxes/unlucky")).status).toBe(404);
  await eventually("the name can be used", async () => (await tryCreate("unlucky")).status === 200);
});

let names = 0;

function tryCreate(name = `try-${names++}`) {
  return raw(daemon, "POST", "/v3/sandboxes", { body: { name } });
}

/** programs that are just ending may still have a file open in it */
function makeReadOnly(): void {
  for (let attempt = 0; ; attempt++) {
    try {
      execFileSync("mount", ["-o", "remount,ro", join(daemon.dataDir, "store")], { stdio: "ignore" });
      return;
    } catch (error) {
      if (attempt === 200) throw error;
    }
  }
}

function isReadOnly(): boolean {
  const store = join(daemon.dataDir, "store");
  const line = readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .find((each) => each.split(" ")[4] === store);
  return line === undefined || / - btrfs \S+ ro(,|$)/.test(line);
}
