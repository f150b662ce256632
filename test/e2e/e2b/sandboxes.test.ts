/** The control plane of E2B, driven by its own SDKs and command line, unmodified. */

import { request } from "node:http";
import { text } from "node:stream/consumers";
import {
  ALL_TRAFFIC,
  AuthenticationError,
  Sandbox,
  type SandboxListOpts,
  SandboxNotFoundError,
  Volume,
  VolumePathNotFoundError,
} from "e2b";
import { Sandbox as Sandbox1 } from "e2b-1";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { raw } from "../clients.ts";
import { useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);

async function all(options: SandboxListOpts): Promise<string[]> {
  const found: string[] = [];
  for (const pages = Sandbox.list(options); pages.hasNext; ) {
    found.push(...(await pages.nextItems()).map(({ sandboxId }) => sandboxId));
  }
  return found;
}

test("a sandbox is created, read and killed once", async () => {
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

test("a list has filters, an order and pages, and each page has the number of running sandboxes", async () => {
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
  // There is no image of this name, so it stands for the default one.
  const asked = await Sandbox.create("code-interpreter-v1", { metadata: { ...group, n: "4" } });
  await asked.updateNetwork({ allowInternetAccess: false });
  expect(await asked.getInfo()).toMatchObject({ templateId: "code-interpreter-v1", name: "code-interpreter-v1" });
  expect((await asked.commands.run("echo $E2B_TEMPLATE_ID")).stdout).toBe("code-interpreter-v1\n");
  expect(await all({ query: { metadata: group, template: "code-interpreter-v1" } })).toEqual([asked.sandboxId]);
  expect(await all({ query: { metadata: group, template: "base" } })).toHaveLength(3);
  await asked.kill();
  const page = await raw(daemon(), "GET", "/v2/sandboxes?limit=1&metadata=n%3D3", { headers: key() });
  expect([page.headers.get("x-total-running"), page.headers.get("x-next-token")]).toEqual(["1", null]);
  const running = await Sandbox1.list({ query: { metadata: group } });
  expect(running.map(({ sandboxId }) => sandboxId)).toEqual([third, first]);
  for (const sandbox of made) expect(await sandbox.kill()).toBe(true);
  expect(await all({ query: { metadata: group } })).toEqual([]);
});

test("a paused sandbox keeps its files and its id, and runs again when a client connects", async () => {
  const sandbox = await Sandbox.create({ metadata: { kept: "yes" } });
  const { sandboxId } = sandbox;
  await sandbox.files.write("kept.txt", "kept");
  expect(await sandbox.pause()).toBe(true);
  expect(await sandbox.pause()).toBe(false);
  expect(await sandbox.getInfo()).toMatchObject({ state: "paused" });
  await expect(sandbox.setTimeout(1000)).rejects.toThrow(SandboxNotFoundError);
  const connect = (path: string, body: object) => raw(daemon(), "POST", path, { headers: key(), body });
  expect((await connect(`/v2/sandboxes/${sandboxId}/connect`, { timeout: 60 })).status).toBe(201);
  expect((await connect(`/v2/sandboxes/${sandboxId}/connect`, { memory: false })).status).toBe(200);
  expect((await connect(`/sandboxes/${sandboxId}/resume`, {})).status).toBe(409);
  const again = await Sandbox.connect(sandboxId, { timeoutMs: 600_000 });
  expect(await again.files.read("kept.txt")).toBe("kept");
  const { endAt, metadata, state } = await again.getInfo();
  expect([state, metadata]).toEqual(["running", { kept: "yes" }]);
  expect(endAt.getTime() - Date.now()).toBeGreaterThan(500_000);
  // Connecting with a shorter time does not shorten it; setting a new time does.
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

test("at the end of its time a sandbox pauses or is deleted, as requested", async () => {
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

test("a timeout of zero is allowed: it ends a sandbox at once, and a connect with it changes nothing", async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000 });
  const { endAt } = await sandbox.getInfo();
  const connected = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 0 });
  expect((await connected.getInfo()).endAt).toEqual(endAt);
  await sandbox.setTimeout(0);
  const brief = await Sandbox.create({ timeoutMs: 0 });
  for (const each of [sandbox, brief]) {
    await expect.poll(() => each.isRunning(), { timeout: 30_000 }).toBe(false);
    await expect(each.getInfo()).rejects.toThrow("not found");
  }
});

test("a network is shown as it was given, without secrets, and replaced as a whole", async () => {
  const sandbox = await Sandbox.create({
    network: {
      denyOut: [ALL_TRAFFIC],
      allowOut: ["1.1.1.1", "api.example.com", "*.example.org"],
      rules: { "api.example.com": [{ transform: { headers: { authorization: "secret" } } }, { transform: {} }, {}] },
      allowPublicTraffic: false,
    },
  });
  expect(sandbox.trafficAccessToken).toMatch(/^[0-9a-f]{64}$/);
  expect((await sandbox.getInfo()).network).toEqual({
    denyOut: ["0.0.0.0/0"],
    allowOut: ["1.1.1.1", "api.example.com", "*.example.org"],
    rules: { "api.example.com": [{ transform: { headers: { authorization: "[hidden]" } } }, { transform: {} }, {}] },
    allowPublicTraffic: false,
  });
  await sandbox.updateNetwork({ allowInternetAccess: false });
  const { network, allowInternetAccess } = await sandbox.getInfo();
  expect([network, allowInternetAccess]).toEqual([{ allowPublicTraffic: false }, false]);
  await sandbox.pause();
  await expect(sandbox.updateNetwork({})).rejects.toThrow("409");
  await sandbox.kill();
});

test("every port is reached by its number, a private one with its token, and traffic wakes a paused sandbox", async () => {
  const metadata = { serves: "a port" };
  const [open, closed] = await Promise.all([
    Sandbox.create({
      metadata,
      lifecycle: { onTimeout: "pause", autoResume: true },
      // biome-ignore lint/suspicious/noTemplateCurlyInString: the placeholder is the vendor's
      network: { maskRequestHost: "localhost:${PORT}" },
    }),
    Sandbox.create({ metadata, network: { allowPublicTraffic: false } }),
  ]);
  const { json } = await raw(daemon(), "GET", "/v2/sandboxes?limit=50");
  const found = json.sandboxes.filter(
    ({ tags }: { tags?: object }) => JSON.stringify(tags) === JSON.stringify(metadata),
  );
  const sessions: string[] = found.map(({ currentSessionId }: { currentSessionId: string }) => currentSessionId);
  expect(sessions).toHaveLength(2);
  const program = `require("http").createServer((q, r) => r.end(q.headers.host + " " + q.url)).listen(3000)`;
  for (const id of sessions) {
    await raw(daemon(), "POST", `/v2/sandboxes/sessions/${id}/cmd`, {
      body: { command: "node", args: ["-e", program] },
    });
  }
  const { host, port } = new URL(daemon().url);
  expect(open.getHost(3000)).toBe(`3000-${open.sandboxId}.localhost:${port}`);
  const get = (headers: Record<string, string>) =>
    new Promise<[number | undefined, string]>((resolve, reject) => {
      const asked = request({ host: "127.0.0.1", port, path: "/a", headers });
      asked.on("error", reject).on("response", async (answer) => resolve([answer.statusCode, await text(answer)]));
      asked.end();
    });
  const byHost = (sandbox: Sandbox) => ({ host: sandbox.getHost(3000) });
  const byHeaders = (sandbox: Sandbox) => ({ host, "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "3000" });
  const token = { "e2b-traffic-access-token": closed.trafficAccessToken ?? "" };
  for (const way of [byHost, byHeaders]) {
    await expect.poll(() => get(way(open)), { timeout: 30_000 }).toEqual([200, "localhost:3000 /a"]);
    const [status, refusal] = await get(way(closed));
    expect([status, JSON.parse(refusal)]).toEqual([
      403,
      { sandboxId: closed.sandboxId, message: expect.stringContaining("token"), code: 403 },
    ]);
    await expect.poll(async () => (await get({ ...way(closed), ...token }))[0], { timeout: 30_000 }).toBe(200);
  }
  const refused = async (headers: Record<string, string>) => {
    const [status, body] = await get(headers);
    return { status, ...JSON.parse(body) };
  };
  const nothing = { status: 502, message: "The sandbox was not found", code: 502 };
  expect(await refused({ host: closed.getHost(3001), ...token })).toEqual({
    ...{ status: 502, sandboxId: closed.sandboxId, port: 3001, code: 502 },
    message: "The sandbox is running but port is not open",
  });
  await Promise.all([open.pause(), closed.pause()]);
  expect(await refused({ ...byHost(closed), ...token })).toEqual({ ...nothing, sandboxId: closed.sandboxId });
  expect(await get(byHost(open))).toEqual([200, "localhost:3000 /a"]);
  expect(await open.getInfo()).toMatchObject({ state: "running", lifecycle: { onTimeout: "pause", autoResume: true } });
  await Promise.all([open.kill(), closed.kill()]);
  for (const way of [byHost, byHeaders]) {
    expect(await refused(way(open))).toEqual({ ...nothing, sandboxId: open.sandboxId });
  }
  expect(await refused({ ...byHeaders(open), "e2b-sandbox-port": "49999" })).toEqual({
    ...nothing,
    sandboxId: open.sandboxId,
  });
  const [status, page] = await get({ ...byHost(open), accept: "text/html" });
  expect([status, page]).toEqual([502, expect.stringContaining("<!doctype html>")]);
  for (const port of ["0", "99999", "x", ""]) {
    const [code, said] = await get({ ...byHeaders(open), "e2b-sandbox-port": port });
    expect([port, code, said]).toEqual([port, 400, expect.stringMatching(/^Cannot find the sandbox/)]);
  }
});

test("a volume's files are available inside sandboxes and without one", async () => {
  const volume = await Volume.create("shared-data");
  await expect(Volume.create("shared-data")).rejects.toThrow("shared-data");
  expect(await Volume.list()).toEqual([{ volumeId: volume.volumeId, name: "shared-data" }]);
  await volume.makeDir("/a/b", { force: true, mode: 0o700 });
  expect(await volume.getInfo("/a")).toMatchObject({ uid: 1000, gid: 1000 });
  await volume.updateMetadata("/a", { uid: 0 });
  expect(await volume.makeDir("/a", { force: true })).toMatchObject({ uid: 0 });
  const written = await volume.writeFile("/a/b/file.txt", "from outside");
  expect(written).toMatchObject({ name: "file.txt", path: "/a/b/file.txt", type: "file", size: 12, uid: 1000 });
  await expect(volume.writeFile("/a/b/file.txt", "again")).rejects.toThrow("409");
  await expect(volume.writeFile("/none/file.txt", "x")).rejects.toThrow(VolumePathNotFoundError);

  const sandbox = await Sandbox.create({ volumeMounts: { "/data": volume } });
  expect((await sandbox.getInfo()).volumeMounts).toEqual([{ name: "shared-data", path: "/data" }]);
  expect(await sandbox.files.read("/data/a/b/file.txt")).toBe("from outside");
  await sandbox.commands.run("echo from inside > /data/a/b/other; ln -s /etc /data/a/b/link");
  expect(await volume.readFile("/a/b/other")).toBe("from inside\n");
  expect((await volume.list("/", { depth: 3 })).map(({ path }) => path).toSorted()).toEqual([
    "/a",
    "/a/b",
    "/a/b/file.txt",
    "/a/b/link",
    "/a/b/other",
  ]);
  await expect(volume.readFile("/a/b/link/passwd")).rejects.toThrow("is a link");
  expect(await volume.updateMetadata("/a/b/other", { mode: 0o600, uid: 0 })).toMatchObject({ mode: 0o600, uid: 0 });
  await sandbox.commands.run(
    "touch -d 2001-02-03T04:05:06Z -m /data/a/b/other; touch -d 2002-03-04T05:06:07Z -a /data/a/b/other",
    { user: "root" },
  );
  const { atime, mtime, ctime } = await volume.getInfo("/a/b/other");
  expect([atime, mtime].map((time) => time.toISOString())).toEqual([
    "2002-03-04T05:06:07.000Z",
    "2001-02-03T04:05:06.000Z",
  ]);
  expect(Math.abs(ctime.getTime() - Date.now())).toBeLessThan(60_000);
  await expect(Volume.destroy(volume.volumeId)).rejects.toThrow("409");
  await sandbox.kill();

  await volume.remove("/a");
  expect([await volume.exists("/a"), await volume.exists("/")]).toEqual([false, true]);
  const again = await Volume.connect(volume.volumeId);
  await again.writeFile("/empty", "");
  expect(await again.readFile("/empty")).toBe("");
  for (const token of ["none", `${again.token}0`]) {
    await expect(volume.list("/", { token })).rejects.toThrow(AuthenticationError);
  }
  expect(await Volume.destroy(volume.volumeId)).toBe(true);
  expect(await Volume.destroy(volume.volumeId)).toBe(false);
});

test("metrics are a series from the sandbox's start, of which a client may take a part", async () => {
  const sandbox = await Sandbox.create();
  const [metric] = await sandbox.getMetrics();
  expect(metric?.memUsed).toBeGreaterThan(0);
  expect(metric?.memTotal).toBeGreaterThan(metric?.memUsed ?? 0);
  expect(metric?.diskTotal).toBeGreaterThan(metric?.diskUsed ?? 0);
  expect(metric?.cpuCount).toBeGreaterThan(0);
  expect(await sandbox.getMetrics({ end: new Date(1000) })).toEqual([]);
  const { json } = await raw(daemon(), "GET", `/sandboxes/metrics?sandbox_ids=${sandbox.sandboxId},i1`, {
    headers: key(),
  });
  expect(Object.keys(json.sandboxes)).toEqual([sandbox.sandboxId]);
  await sandbox.commands.run("timeout 3 sh -c 'while :; do :; done' || true");
  const series = await eventually("three samples", async () => {
    const all = await sandbox.getMetrics();
    return all.length >= 3 ? all : undefined;
  });
  const times = series.map(({ timestamp }) => timestamp.getTime());
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  expect(Math.max(...series.map(({ cpuUsedPct }) => cpuUsedPct))).toBeGreaterThan(10);
  const [first = 0, second = 0] = times;
  const early = await sandbox.getMetrics({ end: new Date(Math.floor(second / 1000) * 1000) });
  expect(early[0]?.timestamp.getTime()).toBe(first);
  expect(early.length).toBeLessThanOrEqual(series.length);
  await sandbox.pause();
  expect((await sandbox.getMetrics()).slice(0, series.length)).toEqual(series);
  await sandbox.kill();
});

test("a team's metrics count the sandboxes that ran", async () => {
  const sandbox = await Sandbox.create();
  const ask = async (path: string) => (await raw(daemon(), "GET", path, { headers: key() })).json;
  const [{ teamID }] = await ask("/teams");
  const start = Math.floor(Date.now() / 1000) - 3600;
  const metrics = await ask(`/teams/${teamID}/metrics?start=${start}`);
  expect(metrics.at(-1)).toMatchObject({ concurrentSandboxes: expect.any(Number) });
  expect(metrics.at(-1).concurrentSandboxes).toBeGreaterThan(0);
  const most = await ask(`/teams/${teamID}/metrics/max?metric=sandbox_start_rate&start=${start}`);
  expect(most.value).toBeGreaterThan(0);
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

test("a token ends with the key that it was made with, and its sandbox keeps running", async () => {
  const keys = "/sandkeep/v1/keys";
  const made = await raw(daemon(), "POST", keys, { body: { name: "for a while" } });
  const sandbox = await Sandbox.create({ apiKey: made.json.secret });
  expect((await sandbox.commands.run("echo a")).stdout).toBe("a\n");
  expect((await raw(daemon(), "DELETE", `${keys}/${made.json.key.id}`)).status).toBeLessThan(300);
  await expect(sandbox.commands.run("echo b")).rejects.toThrow(AuthenticationError);
  await expect(sandbox.getInfo()).rejects.toThrow(AuthenticationError);
  const other = await Sandbox.connect(sandbox.sandboxId);
  expect((await other.commands.run("echo c")).stdout).toBe("c\n");
  expect(await other.kill()).toBe(true);
});

test("an unknown key is refused", async () => {
  await expect(Sandbox.create({ apiKey: "e2b_0123" })).rejects.toThrow("Invalid API key");
});

test("a template that does not exist is not found, as clients expect that build it then", async () => {
  await expect(Sandbox.create("never-built")).rejects.toThrow(/^404: Template "never-built" not found/);
});

function key(): Record<string, string> {
  return { "x-api-key": daemon().key };
}
