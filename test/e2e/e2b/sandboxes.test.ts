/** The control plane of E2B, driven by its own SDKs and command line, unmodified. */

import { ALL_TRAFFIC, Sandbox, type SandboxListOpts, SandboxNotFoundError } from "e2b";
import { Sandbox as Sandbox1 } from "e2b-1";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { raw } from "../clients.ts";
import { cli, useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);

async function all(options: SandboxListOpts): Promise<string[]> {
  const found: string[] = [];
  for (const pages = Sandbox.list(options); pages.hasNext; ) {
    found.push(...(await pages.nextItems()).map(({ sandboxId }) => sandboxId));
  }
  return found;
}

test("a sandbox is created, looked at and killed once", async () => {
  const before = Date.now();
  const sandbox = await Sandbox.create({ metadata: { user: "a b&c=d" }, timeoutMs: 60_500 });
  expect(sandbox.sandboxId).toMatch(/^i[a-z0-9]+$/);
  const info = await sandbox.getInfo();
  expect(info).toMatchObject({
    templateId: "base",
    metadata: { user: "a b&c=d" },
    state: "running",
    lifecycle: { onTimeout: "kill", autoResume: false },
    volumeMounts: [],
  });
  expect(info.startedAt.getTime()).toBeGreaterThanOrEqual(before);
  const left = info.endAt.getTime() - info.startedAt.getTime();
  expect(left).toBeGreaterThanOrEqual(61_000);
  expect(left).toBeLessThan(121_000);
  expect(await sandbox.kill()).toBe(true);
  expect(await sandbox.kill()).toBe(false);
  await expect(sandbox.getInfo()).rejects.toThrow(SandboxNotFoundError);
});

test("a list has filters, an order and pages, and each page says how many run", async () => {
  const group = { group: "a b&c=d%+é" };
  const made = [];
  for (const n of ["1", "2", "3"]) made.push(await Sandbox.create({ metadata: { ...group, n } }));
  const [first = "", second = "", third = ""] = made.map(({ sandboxId }) => sandboxId);
  await made[1]?.pause();
  expect(await all({ query: { metadata: group }, limit: 2 })).toEqual([third, second, first]);
  expect(await all({ query: { metadata: group }, limit: 1, order: "asc" })).toEqual([first, second, third]);
  expect(await all({ query: { metadata: group, state: ["paused"] } })).toEqual([second]);
  expect(await all({ query: { metadata: group, state: ["running"] } })).toEqual([third, first]);
  expect(await all({ query: { metadata: { ...group, n: "3" } } })).toEqual([third]);
  expect(await all({ query: { metadata: { ...group, n: "4" } } })).toEqual([]);
  const { startedAt } = await Sandbox.getInfo(second);
  expect(await all({ query: { metadata: group, startedAfter: startedAt } })).toEqual([third]);
  expect(await all({ query: { metadata: group, template: "base" } })).toHaveLength(3);
  expect(await all({ query: { metadata: group, template: "other" } })).toEqual([]);
  const page = await raw(daemon(), "GET", "/v2/sandboxes?limit=1&metadata=n%3D3", { headers: key() });
  expect([page.headers.get("x-total-running"), page.headers.get("x-next-token")]).toEqual(["1", null]);
  const running = await Sandbox1.list({ query: { metadata: group } });
  expect(running.map(({ sandboxId }) => sandboxId)).toEqual([third, first]);
  for (const sandbox of made) expect(await sandbox.kill()).toBe(true);
  expect(await all({ query: { metadata: group } })).toEqual([]);
});

test("a paused sandbox keeps its files and its id, and runs again when somebody connects", async () => {
  const sandbox = await Sandbox.create({ metadata: { kept: "yes" } });
  const { sandboxId } = sandbox;
  expect(await sandbox.pause()).toBe(true);
  expect(await sandbox.pause()).toBe(false);
  expect(await sandbox.getInfo()).toMatchObject({ state: "paused" });
  await expect(sandbox.setTimeout(1000)).rejects.toThrow(SandboxNotFoundError);
  const connect = (path: string, body: object) => raw(daemon(), "POST", path, { headers: key(), body });
  expect((await connect(`/v2/sandboxes/${sandboxId}/connect`, { timeout: 60 })).status).toBe(201);
  expect((await connect(`/v2/sandboxes/${sandboxId}/connect`, { memory: false })).status).toBe(200);
  expect((await connect(`/sandboxes/${sandboxId}/resume`, {})).status).toBe(409);
  const again = await Sandbox.connect(sandboxId, { timeoutMs: 600_000 });
  const { endAt, metadata, state } = await again.getInfo();
  expect([state, metadata]).toEqual(["running", { kept: "yes" }]);
  expect(endAt.getTime() - Date.now()).toBeGreaterThan(500_000);
  // Connecting for less takes nothing away, and a new time does.
  await Sandbox.connect(sandboxId, { timeoutMs: 1000 });
  expect((await again.getInfo()).endAt).toEqual(endAt);
  await again.setTimeout(100_000);
  expect((await again.getInfo()).endAt.getTime() - Date.now()).toBeLessThan(101_000);
  const refresh = await connect(`/sandboxes/${sandboxId}/refreshes`, { duration: 300 });
  expect(refresh.status).toBe(204);
  expect((await again.getInfo()).endAt.getTime() - Date.now()).toBeGreaterThan(200_000);
  await again.pause();
  expect((await connect(`/sandboxes/${sandboxId}/resume`, { timeout: 60, autoPause: true })).status).toBe(201);
  expect((await again.getInfo()).lifecycle).toEqual({ onTimeout: "pause", autoResume: false });
  await again.pause();
  expect(await again.kill()).toBe(true);
  await expect(Sandbox.connect(sandboxId)).rejects.toThrow(SandboxNotFoundError);
});

test("at the end of its time a sandbox pauses or is gone, as it was asked", async () => {
  const [paused, killed] = await Promise.all([
    Sandbox.create({ timeoutMs: 1000, lifecycle: { onTimeout: "pause" } }),
    Sandbox.create({ timeoutMs: 1000 }),
  ]);
  const stateOf = (id: string) =>
    Sandbox.getInfo(id).then(
      ({ state }) => state,
      () => "gone",
    );
  await expect.poll(() => stateOf(paused.sandboxId), { timeout: 30_000 }).toBe("paused");
  await expect.poll(() => stateOf(killed.sandboxId), { timeout: 30_000 }).toBe("gone");
  expect(await killed.kill()).toBe(false);
  expect(await paused.kill()).toBe(true);
});

test("snapshots outlive their sandbox, are listed by it and by name, and sandboxes begin with them", async () => {
  const sandbox = await Sandbox.create();
  const named = await sandbox.createSnapshot({ name: "first-one" });
  const other = await sandbox.createSnapshot();
  expect(named.names).toEqual(["first-one"]);
  expect(await sandbox.listSnapshots().nextItems()).toEqual([other, named]);
  expect(await Sandbox.listSnapshots({ name: "first-one" }).nextItems()).toEqual([named]);
  await sandbox.pause();
  await sandbox.kill();
  for (const template of [named.snapshotId, "first-one", "first-one:default"]) {
    const copy = await Sandbox.create(template);
    expect(await copy.kill()).toBe(true);
  }
  expect(await Sandbox.deleteSnapshot(other.snapshotId)).toBe(true);
  expect(await Sandbox.deleteSnapshot(other.snapshotId)).toBe(false);
  expect(await Sandbox.deleteSnapshot("first-one:default")).toBe(true);
  await expect(Sandbox.create("first-one")).rejects.toThrow("first-one");
  expect(await Sandbox.listSnapshots().nextItems()).toEqual([]);
});

test("forks are sandboxes of their own", async () => {
  const sandbox = await Sandbox.create({ metadata: { line: "fork" } });
  const forks = await sandbox.fork({ count: 2, timeoutMs: 60_000 });
  const ids = forks.map((fork) => (fork instanceof Sandbox ? fork.sandboxId : String(fork)));
  expect(new Set([sandbox.sandboxId, ...ids]).size).toBe(3);
  expect((await all({ query: { metadata: { line: "fork" } } })).toSorted()).toEqual(
    [sandbox.sandboxId, ...ids].toSorted(),
  );
  for (const id of [sandbox.sandboxId, ...ids]) expect(await Sandbox.kill(id)).toBe(true);
});

test("a network is shown as it was given, without secrets, and replaced as a whole", async () => {
  const sandbox = await Sandbox.create({
    network: {
      denyOut: [ALL_TRAFFIC],
      allowOut: ["1.1.1.1", "api.example.com", "*.example.org"],
      rules: { "api.example.com": [{ transform: { headers: { authorization: "secret" } } }] },
      allowPublicTraffic: false,
    },
  });
  expect(sandbox.trafficAccessToken).toMatch(/^[0-9a-f]{64}$/);
  expect((await sandbox.getInfo()).network).toEqual({
    denyOut: ["0.0.0.0/0"],
    allowOut: ["1.1.1.1", "api.example.com", "*.example.org"],
    rules: { "api.example.com": [{ transform: { headers: { authorization: "[hidden]" } } }] },
    allowPublicTraffic: false,
  });
  await sandbox.updateNetwork({ allowInternetAccess: false });
  const { network, allowInternetAccess } = await sandbox.getInfo();
  expect([network, allowInternetAccess]).toEqual([{ allowPublicTraffic: false }, false]);
  await sandbox.pause();
  await expect(sandbox.updateNetwork({})).rejects.toThrow("409");
  await sandbox.kill();
});

test("metrics are those of the sandbox at this moment", async () => {
  const sandbox = await Sandbox.create();
  const [metric, ...more] = await sandbox.getMetrics();
  expect(more).toEqual([]);
  expect(metric?.memUsed).toBeGreaterThan(0);
  expect(metric?.memTotal).toBeGreaterThan(metric?.memUsed ?? 0);
  expect(metric?.diskTotal).toBeGreaterThan(metric?.diskUsed ?? 0);
  expect(metric?.cpuCount).toBeGreaterThan(0);
  expect(await sandbox.getMetrics({ end: new Date(1000) })).toEqual([]);
  const { json } = await raw(daemon(), "GET", `/sandboxes/metrics?sandbox_ids=${sandbox.sandboxId},i1`, {
    headers: key(),
  });
  expect(Object.keys(json.sandboxes)).toEqual([sandbox.sandboxId]);
  await sandbox.pause();
  expect(await sandbox.getMetrics()).toEqual([]);
  await sandbox.kill();
});

test("version 1 of the SDK sees the same sandbox", async () => {
  const sandbox = await Sandbox1.create({ metadata: { from: "1.13" }, envs: { A: "b" } });
  expect(await Sandbox.getInfo(sandbox.sandboxId)).toMatchObject({ state: "running", metadata: { from: "1.13" } });
  await Sandbox1.setTimeout(sandbox.sandboxId, 60_000);
  expect((await Sandbox1.connect(sandbox.sandboxId)).sandboxId).toBe(sandbox.sandboxId);
  expect(await Sandbox1.kill(sandbox.sandboxId)).toBe(true);
  expect(await Sandbox1.kill(sandbox.sandboxId)).toBe(false);
});

test("the command line creates, lists, shows, pauses, resumes, snapshots and kills", async () => {
  const home = await tempDir();
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await cli(daemon(), home, args);
    expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: "" });
    return stdout;
  };
  const created = await run("sandbox", "create", "--detach");
  const id = /\bi[a-z0-9]{30,}/.exec(created)?.[0] ?? "";
  const listed = JSON.parse(await run("sandbox", "list", "--format", "json"));
  expect(listed).toMatchObject([{ sandboxId: id, state: "running" }]);
  expect(JSON.parse(await run("sandbox", "info", id, "--format", "json"))).toMatchObject({ sandboxId: id });
  expect(await run("sandbox", "logs", id)).toContain("Sandbox started");
  expect(await run("sandbox", "metrics", id)).toContain("CPU");
  expect(await run("sandbox", "snapshot", "create", id)).toContain("napshot");
  expect(await run("sandbox", "snapshot", "list")).toContain("snap_");
  await run("sandbox", "pause", id);
  expect(await Sandbox.getInfo(id)).toMatchObject({ state: "paused" });
  await run("sandbox", "resume", id);
  expect(await Sandbox.getInfo(id)).toMatchObject({ state: "running" });
  expect(await run("sandbox", "kill", id)).toContain("has been killed");
  await expect(Sandbox.getInfo(id)).rejects.toThrow(SandboxNotFoundError);
});

test("a key that no team has is refused", async () => {
  await expect(Sandbox.create({ apiKey: "e2b_0123" })).rejects.toThrow("Invalid API key");
});

function key(): Record<string, string> {
  return { "x-api-key": daemon().key };
}
