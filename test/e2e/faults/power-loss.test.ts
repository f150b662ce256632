/**
 * Acknowledged means on the disk: the power fails the moment a request is answered, and everything that was not flushed
 * is lost. The daemon runs on a disk with a volatile cache, see volatile-disk-server.ts.
 */

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { powerCycle, type Scene, setScene } from "../../chaos/scene.ts";
import { type RawAnswer, raw } from "../clients.ts";

describe.each(["power", "process"] as const)("with SANDKEEP_DURABILITY=%s", (durability) => {
  const undo = new AsyncDisposableStack();
  let scene: Scene;
  beforeAll(async () => {
    scene = await setScene(undo, { database: "sqlite", durability, random: () => 0 });
  });
  afterAll(() => undo.disposeAsync());

  test("every acknowledged change of the database is there, also the last", async () => {
    const { daemon } = scene;
    await answered(scene, "POST", "/v3/sandboxes", { name: "first" });
    await powerLoss(scene);
    // It was not captured yet: it has its files or starts again from its image.
    expect((await raw(daemon, "GET", "/v2/sandboxes/first?resume=true")).status).toBe(200);
    await answered(scene, "PATCH", "/v2/sandboxes/first", { tags: { told: "last" } });
    await powerLoss(scene);
    expect((await raw(daemon, "GET", "/v2/sandboxes/first")).json.sandbox.tags).toEqual({ told: "last" });
  });

  const promise = durability === "power" ? "has its files" : "has its files, or those of the snapshot before";
  test(`a sandbox whose stop was acknowledged ${promise}`, async () => {
    const { daemon } = scene;
    await answered(scene, "POST", "/v3/sandboxes", { name: "stopped" });
    for (const text of ["before", "after"]) {
      const session = (await answered(scene, "GET", "/v2/sandboxes/stopped?resume=true")).json.session.id;
      const body = { command: "sh", args: ["-c", `printf ${text} > file`], wait: true };
      expect((await answered(scene, "POST", `/v2/sandboxes/sessions/${session}/cmd`, body)).text).toContain(
        '"exitCode":0',
      );
      await answered(scene, "POST", `/v2/sandboxes/sessions/${session}/stop`);
      // The kernel writes data that is some seconds old by itself.
      if (text === "before") execFileSync("sync", ["--file-system", join(daemon.dataDir, "store")]);
    }
    await powerLoss(scene);
    const { session, sandbox } = (await answered(scene, "GET", "/v2/sandboxes/stopped?resume=true")).json;
    const path = `/v2/sandboxes/sessions/${session.id}/fs/read`;
    const found = (await answered(scene, "POST", path, { path: "file" })).text;
    expect(durability === "power" ? ["after"] : ["before", "after"]).toContain(found);
    const { snapshot } = (await answered(scene, "GET", `/v2/sandboxes/snapshots/${sandbox.currentSnapshotId}`)).json;
    expect(snapshot.status).toBe("created");
    if (found === "before")
      await expect
        .poll(() => daemon.complaints())
        .toMatch(/The files of snapshot "snap_\w+" of sandbox "stopped" are (gone|incomplete)/);
  });
});

/** drops everything that was not flushed from the disk, and starts a daemon on it */
async function powerLoss(scene: Scene): Promise<void> {
  await scene.disk.lose(0);
  await powerCycle(scene);
}

async function answered({ daemon }: Scene, method: string, path: string, body?: unknown): Promise<RawAnswer> {
  const answer = await raw(daemon, method, path, body === undefined ? {} : { body });
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
  return answer;
}
