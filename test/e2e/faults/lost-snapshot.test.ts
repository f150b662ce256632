/** A snapshot whose files were lost with the power: the log says so, and its sandbox resumes from the newest other. */

import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { raw } from "../clients.ts";

const daemon = daemonOfFile();

test("a sandbox whose last snapshot is gone resumes from the one before it, and the log says so", async () => {
  const { json } = await raw(daemon(), "POST", "/v3/sandboxes", { body: { name: "unlucky" } });
  await leave(json.session.id, "first");
  const session = (await raw(daemon(), "GET", "/v2/sandboxes/unlucky?resume=true")).json.session.id;
  await leave(session, "second");
  const { currentSnapshotId: lost } = (await raw(daemon(), "GET", "/v2/sandboxes/unlucky")).json.sandbox;
  await daemon().kill9(); // a stop would unmount the store, as nothing runs
  for (const path of newestRecords()) rmSync(path);
  await daemon().start();
  await expect
    .poll(() => daemon().complaints())
    .toMatch(
      new RegExp(`The files of snapshot "${lost}" of sandbox "unlucky" are gone: it resumes from "snap_\\w+" of 20`),
    );
  expect((await raw(daemon(), "GET", `/v2/sandboxes/snapshots/${lost}`)).json.snapshot.status).toBe("failed");
  const again = (await raw(daemon(), "GET", "/v2/sandboxes/unlucky?resume=true")).json;
  expect(again.sandbox.currentSnapshotId).not.toBe(lost);
  const body = { path: "file" };
  expect((await raw(daemon(), "POST", `/v2/sandboxes/sessions/${again.session.id}/fs/read`, { body })).text).toBe(
    "first",
  );
});

/** writes a file and stops the session with a snapshot */
async function leave(session: string, text: string): Promise<void> {
  const body = { command: "sh", args: ["-c", `printf ${text} > file`], wait: true };
  const written = await raw(daemon(), "POST", `/v2/sandboxes/sessions/${session}/cmd`, { body });
  expect(written.text).toContain('"exitCode":0');
  expect((await raw(daemon(), "POST", `/v2/sandboxes/sessions/${session}/stop`)).status).toBe(200);
}

/** of the newest snapshot, and of its layer */
function newestRecords(): string[] {
  const folder = join(daemon().dataDir, "store/snapshots");
  const paths = readdirSync(folder).map((name) => join(folder, name));
  const madeAt = (path: string): number => JSON.parse(readFileSync(path, "utf8")).createdAt;
  const [newest] = paths.sort((a, b) => madeAt(b) - madeAt(a));
  if (newest === undefined) throw new Error("There is no snapshot");
  const [layer = ""] = JSON.parse(readFileSync(newest, "utf8")).layers;
  return [newest, join(daemon().dataDir, "store/layers", layer, "layer.json")];
}
