/** Sandboxes through the vendor's SDKs: created, found, listed, changed, ended and deleted. */

import { cpus } from "node:os";
import { beforeAll, describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { cwdOf, raw, waysTo, writtenInTime } from "../clients.ts";
import { redirectThisProcess } from "../redirected-process.ts";

const daemon = daemonOfFile();
beforeAll(() => redirectThisProcess(daemon()));

describe.each(waysTo(daemon))("$name", (way) => {
  const { Sandbox, version } = way;
  /** names of this way's sandboxes: all ways share a project */
  const named = (name: string) => `${name}-${way.name.replace(/[^a-z0-9]+/gi, "-")}`;
  const isNewer = version === "3.5.0";

  test("a sandbox without options has the defaults, and runs", async () => {
    const before = Date.now();
    const sandbox = await Sandbox.create({ ...way.auth });
    expect(sandbox.name).toMatch(/^sandbox-[a-z0-9]{12}$/);
    expect(sandbox).toMatchObject({
      status: "running",
      persistent: true,
      vcpus: 2,
      memory: 4096,
      runtime: "node24",
      region: "iad1",
      timeout: 300_000,
      cwd: cwdOf(version),
      interactivePort: 26661,
      routes: [],
      networkPolicy: "allow-all",
    });
    expect(sandbox.currentSnapshotId).toBeUndefined();
    expect(sandbox.tags).toBeUndefined();
    expect(sandbox.image).toMatch(/^vercel\/sandbox\/universal@sha256:[0-9a-f]{64}$/);
    expect(sandbox.networkTransfer).toBeUndefined();
    const session = sandbox.currentSession();
    expect(session.sessionId).toMatch(/^sbx_[A-Za-z0-9]{28}$/);
    expect(session).toMatchObject({
      status: "running",
      memory: 4096,
      vcpus: 2,
      timeout: 300_000,
      cwd: cwdOf(version),
    });
    expect(session.createdAt.getTime()).toBeGreaterThanOrEqual(before);
    expect(sandbox.expiresAt?.getTime()).toBe((session.startedAt?.getTime() ?? 0) + 300_000);
    const { exitCode, ...ran } = await sandbox.runCommand("echo", ["usable"]);
    expect(exitCode).toBe(0);
    expect(ran).toBeDefined();
    await sandbox.delete();
  });

  test("a sandbox has everything that was requested", async () => {
    const asked = {
      name: named("full"),
      ports: [3000, 8080],
      timeout: 600_000,
      resources: { vcpus: 1 },
      env: { GREETING: "grüß dich", SHARED: "sandbox" },
      tags: { env: "dev", way: "e2e" },
      persistent: false,
      snapshotExpiration: 86_400_000,
      keepLastSnapshots: { count: 2, expiration: 172_800_000, deleteEvicted: false },
      networkPolicy: {
        allow: {
          "api.example.com": [{ transform: [{ headers: { authorization: "Bearer secret" } }] }],
          "*.example.org": [],
        },
        subnets: { allow: ["10.0.0.0/8"], deny: ["10.1.0.0/16"] },
      },
      ...(isNewer && { region: "fra1" as const, failoverRegions: ["cdg1" as const], networkId: "net_1" }),
    };
    const created = await Sandbox.create({ ...way.auth, ...asked });
    for (const sandbox of [created, await Sandbox.get({ ...way.auth, name: asked.name })]) {
      expect(sandbox).toMatchObject({
        name: asked.name,
        timeout: 600_000,
        vcpus: 1,
        memory: 2048,
        tags: asked.tags,
        persistent: false,
        snapshotExpiration: 86_400_000,
        keepLastSnapshots: asked.keepLastSnapshots,
        region: isNewer ? "fra1" : "iad1",
      });
      if (isNewer) expect(sandbox).toMatchObject({ failoverRegions: ["cdg1"], networkId: "net_1" });
      expect(sandbox.routes.map(({ port }) => port)).toEqual([3000, 8080]);
      // Secrets are never returned.
      expect(sandbox.networkPolicy).toEqual({
        allow: {
          "*.example.org": [],
          "api.example.com": [{ transform: [{ headers: { authorization: "<redacted>" } }] }],
        },
        subnets: { allow: ["10.0.0.0/8"], deny: ["10.1.0.0/16"] },
      });
    }
    const script = 'echo "$GREETING $SHARED $OWN"; nproc';
    const env = { OWN: "command", SHARED: "command" };
    const command = await created.runCommand({ cmd: "sh", args: ["-c", script], env });
    expect(await command.stdout()).toBe(`grüß dich command command\n${Math.min(1, cpus().length)}\n`);
    await created.delete();
  });

  test("a runtime may be requested and is reported; an unknown runtime or image is refused", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, runtime: "node22" });
    expect(sandbox.runtime).toBe("node24");
    expect(await (await sandbox.runCommand("node", ["--version"])).stdout()).toMatch(/^v24\./);
    await expect
      .poll(() => daemon().complaints())
      .toContain('Sandboxes that ask for the runtime "node22" run node24, of the image "host"');
    await sandbox.delete();
    await expect(Sandbox.create({ ...way.auth, runtime: "cobol" })).rejects.toMatchObject({
      response: { status: 400 },
    });
    const missing = Sandbox.create({ ...way.auth, image: "no-such-image:v1" });
    await expect(missing).rejects.toMatchObject({
      response: { status: 400 },
      json: { error: { code: "bad_request" } },
    });
  });

  test("a name is unique, and free again after a delete", async () => {
    const name = named("once");
    const first = await Sandbox.create({ ...way.auth, name });
    const message = `A sandbox with the name '${name}' already exists for this project. Use GET /sandboxes/:name to resume it or delete it first.`;
    await expect(Sandbox.create({ ...way.auth, name })).rejects.toMatchObject({
      response: { status: 400 },
      json: { error: { code: "bad_request", message } },
    });
    await first.delete();
    const second = await Sandbox.create({ ...way.auth, name });
    expect(second.currentSession().sessionId).not.toBe(first.currentSession().sessionId);
    await second.delete();
  });

  test("getOrCreate creates a missing sandbox, finds an existing one, and replaces one that cannot run again", async () => {
    const name = named("goc");
    const made: string[] = [];
    const onCreate = async (sandbox: { name: string }) => void made.push(sandbox.name);
    const created = await Sandbox.getOrCreate({ ...way.auth, name, onCreate });
    const found = await Sandbox.getOrCreate({ ...way.auth, name, onCreate });
    expect(made).toEqual([name]);
    expect(found.currentSession().sessionId).toBe(created.currentSession().sessionId);
    const { snapshot } = await created.stop();
    await (await way.Snapshot.get({ ...way.auth, snapshotId: snapshot?.id ?? "" })).delete();
    await expect(Sandbox.get({ ...way.auth, name, resume: true })).rejects.toMatchObject({
      response: { status: 410 },
      json: { error: { code: "snapshot_not_found" } },
    });
    const replaced = await Sandbox.getOrCreate({ ...way.auth, name, resume: true, onCreate });
    expect(made).toEqual([name, name]);
    expect(replaced.status).toBe("running");
    await replaced.delete();
  });

  test("a sandbox that was never created is not found", async () => {
    await expect(Sandbox.get({ ...way.auth, name: named("nobody") })).rejects.toMatchObject({
      response: { status: 404 },
      json: { error: { code: "not_found", message: `Named sandbox '${named("nobody")}' not found for this project.` } },
    });
  });

  test("lists page, sort and filter", async () => {
    const prefix = named("page");
    const names = [1, 2, 3, 4, 5].map((n) => `${prefix}-${n}`);
    const sandboxes = [];
    for (const [index, name] of names.entries()) {
      sandboxes.push(await Sandbox.create({ ...way.auth, name, tags: { parity: index % 2 === 0 ? prefix : "even" } }));
    }
    const list = async (query: object) => {
      const all = [];
      for await (const { name } of await Sandbox.list({ ...way.auth, ...query })) all.push(name);
      return all.filter((name) => name.startsWith(prefix));
    };
    const byName = { sortBy: "name" as const, namePrefix: prefix, limit: 2 };
    expect(await list({ ...byName, sortOrder: "asc" })).toEqual(names);
    expect(await list(byName)).toEqual(names.toReversed());
    expect(await list({ limit: 3 })).toEqual(names.toReversed());
    expect(await list({ tags: { parity: prefix }, sortOrder: "asc" })).toEqual([names[0], names[2], names[4]]);
    const page = await Sandbox.list({ ...way.auth, ...byName });
    expect(page.sandboxes.map(({ name }) => name)).toEqual([names[4], names[3]]);
    expect(page.pagination).toEqual({ count: 2, next: expect.any(String) });
    await sandboxes[1]?.stop();
    const stopped = await raw(daemon(), "GET", "/v2/sandboxes?project=default&status=stopped");
    expect(stopped.json.sandboxes.map(({ name }: { name: string }) => name)).toContain(names[1]);
    expect(await list({ sortBy: "statusUpdatedAt", limit: 50 })).toEqual([
      names[1],
      names[4],
      names[3],
      names[2],
      names[0],
    ]);
    await Promise.all(sandboxes.map((sandbox) => sandbox.delete()));
    expect(await list(byName)).toEqual([]);
  });

  test("stop is final, returns the usage, keeps the files, and can be repeated", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, name: named("stop") });
    await sandbox.writeFiles([{ path: "kept.txt", content: "kept" }]);
    const session = sandbox.currentSession();
    const stopped = await sandbox.stop();
    expect(stopped).toMatchObject({
      status: "stopped",
      snapshot: { status: "created", sourceSessionId: session.sessionId, creationMethod: "automatic" },
      networkTransfer: { ingress: 0, egress: 0 },
    });
    expect(stopped.duration).toBeGreaterThan(0);
    expect(stopped.activeCpuDurationMs).toBeGreaterThanOrEqual(0);
    expect(sandbox.status).toBe("stopped");
    expect(sandbox.currentSnapshotId).toBe(stopped.snapshot?.id);
    expect(await session.stop()).toMatchObject({
      session: { status: "stopped" },
      snapshot: { id: stopped.snapshot?.id },
    });
    const found = await Sandbox.get({ ...way.auth, name: sandbox.name });
    expect(found.status).toBe("stopped");
    expect(found.totalDurationMs).toBe(stopped.duration);
    expect(found.expiresAt).toBeUndefined();
    await sandbox.delete();
  });

  test("using a stopped sandbox resumes it: another session, the same files, environment and address", async () => {
    const resumed: string[] = [];
    const onResume = async (it: { name: string }) => void resumed.push(it.name);
    const env = { KEPT: "too" };
    const sandbox = await Sandbox.create({ ...way.auth, name: named("resume"), ports: [3000], env, onResume });
    await sandbox.writeFiles([{ path: "kept.txt", content: "kept" }]);
    const { sessionId } = sandbox.currentSession();
    const domain = sandbox.domain(3000);
    const { snapshot } = await sandbox.stop();
    const command = await sandbox.runCommand("sh", ["-c", 'cat kept.txt; echo " $KEPT"']);
    expect(await command.stdout()).toBe("kept too\n");
    expect(resumed).toEqual([sandbox.name]);
    expect(sandbox.currentSession().sessionId).not.toBe(sessionId);
    expect(sandbox.sourceSnapshotId).toBe(snapshot?.id);
    expect(sandbox.domain(3000)).toBe(domain);
    const sessions = await Array.fromAsync(await sandbox.listSessions({ limit: 1 }));
    expect(sessions.map(({ id, status }) => ({ id, status }))).toEqual([
      { id: sandbox.currentSession().sessionId, status: "running" },
      { id: sessionId, status: "stopped" },
    ]);
    expect(await Array.fromAsync(await sandbox.listSessions({ sortOrder: "asc" }))).toHaveLength(2);
    await sandbox.delete();
  });

  test("a sandbox that keeps nothing cannot be resumed", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, name: named("ephemeral"), persistent: false });
    expect((await sandbox.stop()).snapshot).toBeUndefined();
    await expect(sandbox.runCommand("true")).rejects.toMatchObject({
      response: { status: 400 },
      json: { error: { code: "snapshot_not_found", message: "Cannot resume sandbox: no snapshot available." } },
    });
    await sandbox.delete();
  });

  test("a session ends when its time is over, and keeps its files like a stopped one", async () => {
    const { sandbox, sessionId, endsAt } = await writtenInTime((timeout) =>
      Sandbox.create({ ...way.auth, name: named("expire"), timeout }),
    );
    const ended = await eventually("the session has ended", async () => {
      const [last] = (await sandbox.listSessions()).sessions;
      return last?.status === "stopped" && last;
    });
    expect(ended.id).toBe(sessionId);
    // How soon it is stopped is a matter of test/core/clock.test.ts, which a busy host does not change.
    expect(ended.requestedStopAt).toBeGreaterThanOrEqual(endsAt);
    expect((await sandbox.readFileToBuffer({ path: "kept" }))?.toString()).toBe("kept");
    await sandbox.delete();
  });

  test("extendTimeout moves the end of this session only", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, timeout: 60_000 });
    await sandbox.extendTimeout(30_000);
    expect(sandbox.currentSession().timeout).toBe(90_000);
    const found = await Sandbox.get({ ...way.auth, name: sandbox.name });
    expect(found.timeout).toBe(60_000);
    expect(found.expiresAt?.getTime()).toBe((found.currentSession().startedAt?.getTime() ?? 0) + 90_000);
    await expect(sandbox.extendTimeout(999)).rejects.toMatchObject({ response: { status: 400 } });
    await expect(sandbox.extendTimeout(86_400_000)).rejects.toMatchObject({ response: { status: 400 } });
    await sandbox.delete();
  });

  test("update applies to the next session, except time, network and ports, which change at once", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, name: named("update"), ports: [3000], persistent: false });
    const [before] = sandbox.routes;
    await sandbox.update({
      persistent: true,
      resources: { vcpus: 4 },
      timeout: 900_000,
      tags: { a: "b" },
      ports: [3000, 8080],
      snapshotExpiration: 86_400_000,
      keepLastSnapshots: { count: 2 },
      networkPolicy: "deny-all",
      ...(isNewer && { region: "sfo1" as const, failoverRegions: ["iad1" as const], networkId: "net_2" }),
    });
    expect(sandbox).toMatchObject({
      persistent: true,
      timeout: 900_000,
      tags: { a: "b" },
      snapshotExpiration: 86_400_000,
      keepLastSnapshots: { count: 2, deleteEvicted: true },
      networkPolicy: "deny-all",
    });
    if (isNewer) expect(sandbox).toMatchObject({ region: "sfo1", failoverRegions: ["iad1"], networkId: "net_2" });
    expect(sandbox.routes.map(({ port }) => port)).toEqual([3000, 8080]);
    expect(sandbox.routes[0]).toEqual(before);
    const session = sandbox.currentSession();
    expect(session).toMatchObject({ vcpus: 2, timeout: 900_000, networkPolicy: "deny-all" });
    await sandbox.stop();
    await sandbox.runCommand("true");
    expect(sandbox.currentSession()).toMatchObject({
      vcpus: 4,
      memory: 8192,
      timeout: 900_000,
      networkPolicy: "deny-all",
    });
    await sandbox.update({ tags: {}, ...(isNewer && { networkId: null, failoverRegions: [] }) });
    const found = await Sandbox.get({ ...way.auth, name: sandbox.name });
    expect(found.tags).toBeUndefined();
    if (isNewer) {
      expect(found.networkId).toBeUndefined();
      expect(found.failoverRegions).toEqual([]);
    }
    await sandbox.delete();
  });

  test("a network policy is shown without secrets, and lasts as long as requested", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, name: named("policy") });
    const match = { method: ["POST"], path: { startsWith: "/v1" } };
    const transform = [{ headers: { authorization: "Bearer secret" } }];
    const policy = { allow: { "api.example.com": [{ transform, match }], "*": [] } };
    const shown = {
      allow: {
        "*": [],
        "api.example.com": [{ transform: [{ headers: { authorization: "<redacted>" } }], match }],
      },
    };
    expect(await sandbox.updateNetworkPolicy(policy)).toEqual(shown);
    expect(sandbox.currentSession().networkPolicy).toEqual(shown);
    expect((await Sandbox.get({ ...way.auth, name: sandbox.name })).networkPolicy).toBe("allow-all");
    await sandbox.update({ networkPolicy: policy });
    expect(sandbox.networkPolicy).toEqual(shown);
    await sandbox.stop();
    await sandbox.runCommand("true");
    expect(sandbox.currentSession().networkPolicy).toEqual(shown);
    const answer = await raw(daemon(), "GET", `/v2/sandboxes/${sandbox.name}`);
    expect(answer.text).not.toContain("Bearer secret");
    expect(await sandbox.updateNetworkPolicy("deny-all")).toBe("deny-all");
    await sandbox.delete();
  });

  test("delete ends the running session and leaves only the snapshots", async () => {
    const sandbox = await Sandbox.create({ ...way.auth, name: named("delete") });
    const { snapshot } = await sandbox.stop();
    await sandbox.runCommand("true");
    const session = sandbox.currentSession();
    await sandbox.delete();
    await expect(Sandbox.get({ ...way.auth, name: sandbox.name })).rejects.toMatchObject({ response: { status: 404 } });
    await expect(session.runCommand("true")).rejects.toMatchObject({
      response: { status: 410 },
      json: { error: { code: "sandbox_stopped" } },
    });
    const kept = await way.Snapshot.get({ ...way.auth, snapshotId: snapshot?.id ?? "" });
    expect(kept.status).toBe("created");
    await kept.delete();
  });

  if (isNewer)
    test("delete also deletes the snapshots if requested", async () => {
      const sandbox = await Sandbox.create({ ...way.auth, name: named("orphans") });
      const { snapshot } = await sandbox.stop();
      await sandbox.delete({ deleteOrphanSnapshots: true });
      const deleted = await way.Snapshot.get({ ...way.auth, snapshotId: snapshot?.id ?? "" });
      expect(deleted.status).toBe("deleted");
    });

  test("a sandbox that is used for a while is stopped at the end of it", async () => {
    let name = "";
    {
      await using sandbox = await Sandbox.create({ ...way.auth });
      name = sandbox.name;
      expect(sandbox.status).toBe("running");
    }
    const found = await Sandbox.get({ ...way.auth, name });
    expect(found.status).toBe("stopped");
    await found.delete();
  });
});

describe("on the wire", () => {
  test.each(["/api/v2", "/api/v3", "/api/v4", "/v2", "/v3", "/v4"])("%s/sandboxes creates", async (version) => {
    const body = { __interactive: true, __anything: { at: ["all"] } };
    const { status, headers, json } = await raw(daemon(), "POST", `${version}/sandboxes?__private=1`, { body });
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(Object.keys(json).sort()).toEqual(["routes", "sandbox", "session"]);
    // The vendor's own port, only for callers that ask for it.
    expect(json.routes).toMatchObject([{ port: 26661, system: true }]);
    const found = await raw(daemon(), "GET", `${version}/sandboxes/${json.sandbox.name}`);
    expect(found.json).toMatchObject({ session: { id: json.session.id }, routes: [], resumed: false });
    const system = await raw(daemon(), "GET", `/v2/sandboxes/${json.sandbox.name}?__includeSystemRoutes=true`);
    expect(system.json.routes).toEqual(json.routes);
    expect((await raw(daemon(), "DELETE", `${version}/sandboxes/${json.sandbox.name}`)).status).toBe(200);
  });
});
