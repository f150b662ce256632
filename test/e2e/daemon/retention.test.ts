/** Old sessions of a real daemon: deleted from every list with their commands and output, and nothing else is. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { raw } from "../clients.ts";

// Output is kept for ever, so that it is deleted with its session or not at all.
const daemon = daemonOfFile({ SANDKEEP_OUTPUT_RETENTION: "0" });
const longAgo = 100 * 86_400_000;

const ask = async (method: string, path: string, body?: object) =>
  (await raw(daemon(), method, path, body && { body })).json;
const status = async (path: string) => (await raw(daemon(), "GET", path)).status;

/** runs a command in a session and stops it; returns the command's id */
async function use(session: string): Promise<string> {
  const { command } = await ask("POST", `/v2/sandboxes/sessions/${session}/cmd`, { command: "echo", args: ["hi"] });
  await eventually("it has ended", async () => {
    const { command: now } = await ask("GET", `/v2/sandboxes/sessions/${session}/cmd/${command.id}`);
    return now.exitCode === 0;
  });
  expect((await raw(daemon(), "POST", `/v2/sandboxes/sessions/${session}/stop`)).status).toBe(200);
  return command.id;
}

/** whether there is a folder with the output of a session's machine */
function hasOutput(session: string): boolean {
  const folder = join(daemon().dataDir, "store/machines");
  const records = readdirSync(folder).map((name) => join(folder, name, "machine.json"));
  return records.some((path) => existsSync(path) && readFileSync(path, "utf8").includes(session));
}

test("sessions that ended long ago are deleted with their commands and output, except the newest of a sandbox", async () => {
  const first = (await ask("POST", "/v3/sandboxes", { name: "kept" })).session.id;
  const command = await use(first);
  const { currentSnapshotId: snapshot } = (await ask("GET", "/v2/sandboxes/kept")).sandbox;
  const second = (await ask("GET", "/v2/sandboxes/kept?resume=true")).session.id;
  const kept = await use(second);
  await ask("DELETE", `/v2/sandboxes/snapshots/${snapshot}`);
  const deleted = (await ask("POST", "/v3/sandboxes", { name: "deleted" })).session.id;
  // Deleted while it runs, so that nothing of it is kept.
  expect((await raw(daemon(), "DELETE", "/v2/sandboxes/deleted")).status).toBe(200);
  expect(hasOutput(first)).toBe(true);
  await daemon().stop();
  const database = new DatabaseSync(join(daemon().dataDir, "sandkeep.db"));
  database.exec(`update sessions set created_at = created_at - ${longAgo}, stopped_at = stopped_at - ${longAgo}`);
  database.exec(`update sandboxes set deleted_at = deleted_at - ${longAgo}`);
  database.close();
  await daemon().start();

  await eventually("both are gone", async () => {
    const paths = [first, deleted].map((id) => `/v2/sandboxes/sessions/${id}`);
    return (await Promise.all(paths.map(status))).every((code) => code === 404);
  });
  expect(await status(`/v2/sandboxes/sessions/${first}/cmd/${command}`)).toBe(404);
  expect(await status(`/v2/sandboxes/snapshots/${snapshot}`)).toBe(404);
  expect([hasOutput(first), hasOutput(second)]).toEqual([false, true]);
  const list = await ask("GET", "/v2/sandboxes/sessions?project=prj_default&limit=50");
  expect(list.sessions.map(({ id }: { id: string }) => id)).toEqual([second]);
  const logs = await raw(daemon(), "GET", `/v2/sandboxes/sessions/${second}/cmd/${kept}/logs`);
  expect(logs.text).toContain("hi");
  expect((await ask("GET", "/v2/sandboxes/kept?resume=true")).session.id).not.toBe(second);
  expect(daemon().complaints()).toBe("");
});
