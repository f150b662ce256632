/** Sessions on Vercel's wire. */

import { describe, expect, test } from "vitest";
import { apiClient } from "../../../../test/harness/api-client.ts";
import {
  failing,
  failingAs,
  sandbox,
  session,
  sessionId,
  snapshot,
  snapshotId,
} from "../../../../test/harness/fake-core.ts";

const base = `/api/v2/sandboxes/sessions/${sessionId}`;
const caller = { teamId: "team_default" };
const day = 86_400_000;

test("sessions are listed by sandbox, page by page", async () => {
  const { ask, asked } = apiClient();
  const { json } = await ask(
    "GET",
    "/api/v2/sandboxes/sessions?project=default&name=demo&limit=5&cursor=c&sortOrder=asc",
  );
  expect(asked("sessions.ofSandbox")[0]?.slice(1)).toEqual(["demo", { limit: 5, cursor: "c", order: "asc" }]);
  expect(json.pagination).toEqual({ count: 1, next: "more" });
});

test("a session comes with its sandbox's routes", async () => {
  const { ask } = apiClient();
  const { json } = await ask("GET", `${base}?teamId=default`);
  expect(json.session.id).toBe(sessionId);
  expect(json.routes).toHaveLength(1);
  expect((await ask("GET", `${base}?__includeSystemRoutes=true`)).json.routes).toHaveLength(2);
});

test("a session that has ended shows its usage", async () => {
  const used = { stoppedAt: 5, duration: 4, cpuMs: 3, ingressBytes: 2, egressBytes: 1, snapshottedAt: 5 };
  const { expiresAt: _, ...ended } = { ...session, ...used, state: "stopped" };
  const { ask } = apiClient({ "sessions.get": async () => ended });
  const { json } = await ask("GET", base);
  expect(json.session).toMatchObject({
    stoppedAt: 5,
    duration: 4,
    activeCpuDurationMs: 3,
    networkTransfer: { ingress: 2, egress: 1 },
    snapshottedAt: 5,
  });
});

test.each(["sbx_", "demo", "sbx_%2e%2e", "sbx_a-b"])("%s is not a session", async (id) => {
  const { ask, asked } = apiClient();
  const { status, json } = await ask("GET", `/api/v2/sandboxes/sessions/${id}`);
  expect([status, json.error.code]).toEqual([404, "not_found"]);
  expect(asked("sessions.get")).toEqual([]);
});

test("a foreign team in the query is refused before any lookup", async () => {
  const { ask, asked } = apiClient();
  expect((await ask("GET", `${base}?teamId=team_other`)).status).toBe(403);
  expect(asked("sessions.get")).toEqual([]);
});

describe("stop", () => {
  test("accepts an empty body with a content type, and answers with the final state", async () => {
    const { ask, asked } = apiClient();
    const { json } = await ask("POST", `${base}/stop`);
    expect([json.session.status, json.snapshot.id, json.sandbox.name]).toEqual(["stopped", snapshotId, "demo"]);
    expect(asked("sessions.stop")).toEqual([[caller, sessionId]]);
  });

  test("a manual snapshot is not in the answer again", async () => {
    const stopped = async () => ({ session: { ...session, state: "stopped" as const }, sandbox, snapshot });
    const { ask } = apiClient({ "sessions.stop": stopped });
    expect((await ask("POST", `${base}/stop`)).json).not.toHaveProperty("snapshot");
  });

  test("the answer has no snapshot if none was taken", async () => {
    const { ask } = apiClient({ "sessions.stop": async () => ({ session, sandbox }) });
    expect((await ask("POST", `${base}/stop`)).json).not.toHaveProperty("snapshot");
  });
});

test("a timeout is extended by a duration", async () => {
  const { ask, asked } = apiClient();
  expect((await ask("POST", `${base}/extend-timeout`, { duration: 60_000 })).json.session.id).toBe(sessionId);
  expect(asked("sessions.extend")).toEqual([[caller, sessionId, 60_000]]);
  for (const duration of [999, 1000.5, "60000", undefined]) {
    expect((await ask("POST", `${base}/extend-timeout`, { duration })).status).toBe(400);
  }
});

test("a network policy is the whole body", async () => {
  const { ask, asked } = apiClient();
  await ask("POST", `${base}/network-policy`, { allow: ["api.example.com"] });
  expect(asked("sessions.setNetworkPolicy")[0]?.[2]).toEqual({
    mode: "custom",
    domains: [{ domain: "api.example.com", rules: [] }],
    allowedCidrs: [],
    deniedCidrs: [],
  });
});

describe("snapshot", () => {
  test("is answered with 201, both source ids and the session", async () => {
    const { ask, asked } = apiClient();
    const { status, json } = await ask("POST", `${base}/snapshot`, { expiration: day });
    expect(status).toBe(201);
    expect(json.snapshot).toMatchObject({ sourceSessionId: sessionId, sourceSandboxId: sessionId, status: "created" });
    expect(json.snapshot).not.toHaveProperty("expiresAt");
    expect(json.session).toMatchObject({ status: "snapshotting" });
    for (const member of ["stoppedAt", "duration", "activeCpuDurationMs"])
      expect(json.session).not.toHaveProperty(member);
    expect(asked("sessions.snapshot")).toEqual([[caller, sessionId, { expiration: day }]]);
  });

  test("needs no body; version 3 then keeps it for a week unless its sandbox says otherwise", async () => {
    const { ask, asked } = apiClient();
    await ask("POST", `${base}/snapshot`);
    await ask("POST", `${base.replace("v2", "v3")}/snapshot`);
    const configured = apiClient({ "sessions.sandboxOf": async () => ({ ...sandbox, snapshotExpiration: 0 }) });
    await configured.ask("POST", `${base.replace("v2", "v3")}/snapshot`);
    expect(asked("sessions.snapshot").map((args) => args[2])).toEqual([
      { expiration: undefined },
      { expiration: 7 * day },
    ]);
    expect(configured.asked("sessions.snapshot")[0]?.[2]).toEqual({ expiration: 0 });
  });

  test("an expiration shorter than a day is refused in the hosted service's words", async () => {
    const { ask } = apiClient();
    const { json } = await ask("POST", `${base}/snapshot`, { expiration: 5 });
    expect(json.error.message).toBe("`expiration` must be 0 (no expiration) or >= 86400000 ms (1 day).");
  });
});

test.each([
  ["stop", "sessions.stop", undefined],
  ["extend-timeout", "sessions.extend", { duration: 1000 }],
  ["network-policy", "sessions.setNetworkPolicy", { mode: "deny-all" }],
  ["snapshot", "sessions.snapshot", undefined],
  ["interactive", "sessions.running", {}],
  ["fs/read", "files.read", { path: "a" }],
  ["fs/mkdir", "files.mkdir", { path: "a" }],
  ["cmd", "commands.run", { command: "x" }],
])("%s of a session that is over, stopping or being captured is 410 or 422", async (verb, method, body) => {
  for (const [state, status, word] of [
    ["stopped", 410, "sandbox_stopped"],
    ["stopping", 422, "sandbox_stopping"],
    ["snapshotting", 422, "sandbox_snapshotting"],
  ] as const) {
    const { ask } = apiClient({ [method]: failingAs(state) });
    const reply = await ask("POST", `${base}/${verb}`, body);
    expect([reply.status, reply.json.error.code]).toEqual([status, word]);
  }
});

describe("snapshots", () => {
  test("are listed, including tombstones", async () => {
    const tombstone = { ...snapshot, state: "deleted", expiresAt: 7, parentId: "snap_0" };
    const { ask, asked } = apiClient({ "snapshots.list": async () => ({ items: [tombstone] }) });
    const { json } = await ask("GET", "/api/v2/sandboxes/snapshots?project=default&name=demo");
    expect(asked("snapshots.list")[0]?.[1]).toEqual({ limit: 20, order: "desc", sandboxName: "demo" });
    expect(json.snapshots[0]).toMatchObject({ status: "deleted", expiresAt: 7, parentId: "snap_0", regions: ["iad1"] });
  });

  test("are found and deleted by id", async () => {
    const { ask } = apiClient();
    expect((await ask("GET", `/api/v2/sandboxes/snapshots/${snapshotId}`)).json.snapshot.id).toBe(snapshotId);
    expect((await ask("DELETE", `/api/v2/sandboxes/snapshots/${snapshotId}`)).json.snapshot.status).toBe("deleted");
    expect((await ask("GET", "/api/v2/sandboxes/snapshots/other")).status).toBe(404);
  });

  test("have a tree in which counts are text", async () => {
    const node = { snapshot, siblings: [snapshot], count: 10, more: true };
    const { ask, asked } = apiClient({
      "snapshots.tree": async () => ({ anchor: node, nodes: [node], next: "snap_9" }),
    });
    const { json } = await ask(
      "GET",
      `/api/v2/sandboxes/snapshots/tree?snapshotId=${snapshotId}&limit=3&sortOrder=asc`,
    );
    expect(asked("snapshots.tree")[0]?.slice(1)).toEqual([snapshotId, { limit: 3, order: "asc" }]);
    expect([json.anchor.count, json.snapshots[0].siblings.length, json.pagination]).toEqual([
      "10+",
      1,
      { count: 1, next: "snap_9" },
    ]);
    expect((await ask("GET", "/api/v2/sandboxes/snapshots/tree")).status).toBe(400);
    expect((await ask("GET", `/api/v2/sandboxes/snapshots/tree?snapshotId=${snapshotId}&limit=11`)).status).toBe(400);
  });
});

describe("drives", () => {
  test("a new one is 201, an existing one 200", async () => {
    const { ask, asked } = apiClient();
    const { status, json } = await ask("POST", "/api/v2/sandboxes/drives/d1", {
      projectId: "default",
      maxSizeBytes: 2 ** 30,
    });
    expect([status, json.drive.name]).toEqual([201, "d1"]);
    expect(asked("drives.getOrCreate")[0]?.slice(1)).toEqual(["d1", { maxSizeBytes: 2 ** 30, region: undefined }]);
    const there = apiClient({
      "drives.getOrCreate": async () => ({ drive: { ...json.drive, sessionId }, created: false }),
    });
    const again = await there.ask("POST", "/api/v2/sandboxes/drives/d1", {});
    expect([again.status, again.json.drive.currentSessionId]).toEqual([200, sessionId]);
  });

  test("are listed and deleted; one in use is a conflict", async () => {
    const { ask, asked } = apiClient();
    await ask("GET", "/api/v2/sandboxes/drives?projectId=default&sortBy=name&namePrefix=d&sortOrder=asc");
    expect(asked("drives.list")[0]?.[1]).toEqual({ limit: 20, order: "asc", sortBy: "name", namePrefix: "d" });
    expect((await ask("DELETE", "/api/v2/sandboxes/drives/d1?projectId=default")).json.drive.id).toBe("drv_1");
    const used = apiClient({ "drives.delete": failing("conflict", undefined, { kind: "drive" }) });
    const { status, json } = await used.ask("DELETE", "/api/v2/sandboxes/drives/d1");
    expect([status, json.error.code]).toEqual([409, "conflict"]);
  });

  test("an invalid name is refused", async () => {
    const { ask, asked } = apiClient();
    expect((await ask("POST", "/api/v2/sandboxes/drives/a%20b", {})).status).toBe(400);
    expect((await ask("POST", `/api/v2/sandboxes/drives/${"x".repeat(65)}`, {})).status).toBe(400);
    expect((await ask("DELETE", "/api/v2/sandboxes/drives/a%20b")).status).toBe(404);
    expect([...asked("drives.getOrCreate"), ...asked("drives.delete")]).toEqual([]);
  });
});
