/** The control plane of E2B, driven by its own SDK, unmodified. */

import { Sandbox } from "e2b";
import { Sandbox as Sandbox1 } from "e2b-1";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { cli, useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);

test("a sandbox is created, looked at and killed once", async () => {
  const before = Date.now();
  const sandbox = await Sandbox.create({ metadata: { user: "a b&c=d" }, timeoutMs: 60_500 });
  expect(sandbox.sandboxId).toMatch(/^i[a-z0-9]+$/);
  const info = await sandbox.getInfo();
  expect(info).toMatchObject({ templateId: "base", metadata: { user: "a b&c=d" }, state: "running" });
  expect(info.startedAt.getTime()).toBeGreaterThanOrEqual(before);
  const left = info.endAt.getTime() - info.startedAt.getTime();
  expect(left).toBeGreaterThanOrEqual(61_000);
  expect(left).toBeLessThan(121_000);
  expect(await sandbox.kill()).toBe(true);
  expect(await sandbox.kill()).toBe(false);
  await expect(sandbox.getInfo()).rejects.toThrow("not found");
});

test("a key that no team has is refused", async () => {
  await expect(Sandbox.create({ apiKey: "e2b_0123" })).rejects.toThrow("Invalid API key");
});

test("version 1 of the SDK and the command line see the same sandbox", async () => {
  const sandbox = await Sandbox1.create({ metadata: { from: "1.13" }, envs: { A: "b" } });
  const home = await tempDir();
  const info = await cli(daemon(), home, ["sandbox", "info", sandbox.sandboxId, "--format", "json"]);
  expect(info.stderr).toBe("");
  expect(JSON.parse(info.stdout)).toMatchObject({ sandboxId: sandbox.sandboxId, metadata: { from: "1.13" } });
  expect(await Sandbox.getInfo(sandbox.sandboxId)).toMatchObject({ state: "running" });
  const killed = await cli(daemon(), home, ["sandbox", "kill", sandbox.sandboxId]);
  expect(killed).toMatchObject({ code: 0, stdout: expect.stringContaining("has been killed") });
  expect(await Sandbox1.kill(sandbox.sandboxId)).toBe(false);
});
