/** Version 1 of Vercel's wire: what each request calls in the core, and what it answers. */

import { describe, expect, test } from "vitest";
import { apiClient } from "../../../../test/harness/api-client.ts";
import {
  commandId,
  endedCommand,
  failingAs,
  sandbox,
  session,
  sessionId,
  snapshot,
  snapshotId,
  time,
} from "../../../../test/harness/fake-core.ts";

const owner = { teamId: "team_default", projectId: "prj_default" };
const one = `/api/v1/sandboxes/${sessionId}`;

describe("create", () => {
  test("makes a sandbox that is not persistent and is named by its session's id", async () => {
    const { ask, asked } = apiClient();
    const body = {
      projectId: "prj_default",
      ports: [3000],
      timeout: 600_000,
      resources: { vcpus: 2 },
      env: { A: "1" },
      networkPolicy: { mode: "custom", allowedDomains: ["example.com"], deniedCIDRs: ["10.0.0.0/8"] },
    };
    const { status, json } = await ask("POST", "/api/v1/sandboxes?teamId=team_default", body);
    expect(status).toBe(200);
    expect(asked("sandboxes.create")).toEqual([
      [
        owner,
        {
          base: { runtime: "node24" },
          ports: [3000],
          timeout: 600_000,
          vcpus: 2,
          env: { A: "1" },
          networkPolicy: {
            mode: "custom",
            domains: [{ domain: "example.com", rules: [] }],
            allowedCidrs: [],
            deniedCidrs: ["10.0.0.0/8"],
          },
          persistent: false,
          namedBySession: true,
        },
      ],
    ]);
    expect(Object.keys(json)).toEqual(["sandbox", "routes"]);
    expect(json.sandbox).toMatchObject({ id: sessionId, status: "running", memory: 4096, runtime: "node24" });
    expect(json.routes).toMatchObject([{ url: "http://sb-abc.localhost:7700", subdomain: "sb-abc", port: 3000 }]);
  });

  test("shows the platform's own route on request", async () => {
    const { ask } = apiClient();
    const { json } = await ask("POST", "/api/v1/sandboxes", { __interactive: true });
    expect(json.routes[1]).toMatchObject({ port: json.sandbox.interactivePort, system: true });
    expect((await ask("GET", `${one}?__includeSystemRoutes=true`)).json.routes).toHaveLength(2);
    expect((await ask("GET", one)).json.routes).toHaveLength(1);
  });

  test.each(["name", "image", "persistent", "tags", "mounts", "region", "snapshotExpiration"])(
    "refuses the field %s",
    async (member) => {
      const { ask, asked } = apiClient();
      const { status, json } = await ask("POST", "/api/v1/sandboxes", { [member]: "x" });
      expect([status, json.error.code]).toEqual([400, "bad_request"]);
      expect(asked("sandboxes.create")).toEqual([]);
    },
  );

  test("happens once per idempotency key, independent of other versions", async () => {
    const { ask, asked } = apiClient();
    const headers = { "idempotency-key": "k" };
    const first = await ask("POST", "/api/v1/sandboxes", {}, { headers });
    expect((await ask("POST", "/api/v1/sandboxes", {}, { headers })).json).toEqual(first.json);
    expect(asked("sandboxes.create")).toHaveLength(1);
    expect((await ask("POST", "/api/v2/sandboxes", {}, { headers })).json).toHaveProperty("session");
  });

  test("is undone when its client does not wait for the answer", async () => {
    const { ask, asked } = apiClient();
    await ask("POST", "/api/v1/sandboxes", {}, { signal: AbortSignal.abort() }).catch(() => undefined);
    expect(asked("sandboxes.create")).toHaveLength(1);
    expect(asked("sandboxes.abandon")).toEqual([[owner, sandbox.id]]);
  });
});

describe("lists", () => {
  test.each([
    ["sandboxes", "/api/v1/sandboxes", "sessions.timeline"],
    ["snapshots", "/api/v1/sandboxes/snapshots", "snapshots.timeline"],
  ])("of %s are requested by time and place", async (what, path, method) => {
    const places = { older: { at: time, below: 0 }, newer: { at: time + 1, below: 3 } };
    const { ask, asked } = apiClient({
      [method]: async () => ({ items: [what === "sandboxes" ? session : snapshot], total: 9, ...places }),
    });
    const { json } = await ask("GET", `${path}?project=default&limit=100&since=1&until=${time}.0009765625`);
    expect(asked(method)).toEqual([[owner, { limit: 100, since: { at: 1 }, until: { at: time, below: 1 } }]]);
    expect(json[what]).toHaveLength(1);
    expect(json.pagination).toEqual({ count: 1, next: time + 1 / 2048, prev: time + 1 + 4 / 2048, total: 9 });
    await ask("GET", path);
    expect(asked(method)[1]).toEqual([owner, { limit: 20, since: undefined, until: undefined }]);
    await ask("GET", `${path}?since=${time + 1 + 4 / 2048}`);
    expect(asked(method)[2]).toEqual([owner, { limit: 20, since: places.newer, until: undefined }]);
  });

  test.each([
    ...["limit=0", "limit=-1", "limit=1001", "limit=1.5", "limit=x", "limit=", "limit=1&limit=2"],
    ...["since=-1", "since=x", "since=", "since=1e3", "since=2026-01-01", "since=NaN", "since=99999999999999999"],
    ...["until=-1", "until=0x10", "until=1.", "until=.5", "until=Infinity", "until=1&until=2"],
    ...["cursor=x", "sortOrder=asc", "status=running", "name=x", "projectId=default", "tags=a:b", "from=1"],
  ])("refuse %s", async (query) => {
    const { ask, calls } = apiClient();
    for (const path of ["/api/v1/sandboxes", "/api/v1/sandboxes/snapshots"]) {
      const { status, json } = await ask("GET", `${path}?${query}`);
      expect([status, json.error.code], json.error.message).toEqual([400, "bad_request"]);
    }
    expect(calls.filter(({ method }) => method !== "access.authenticate")).toEqual([]);
  });

  test("a place that no number can express is an error in Vercel's format", async () => {
    const { ask } = apiClient({
      "sessions.timeline": async () => ({ items: [session], total: 9999, older: { at: time, below: 5000 } }),
    });
    const { status, json } = await ask("GET", "/api/v1/sandboxes");
    expect([status, json.error.code]).toEqual([400, "bad_request"]);
  });
});

describe("one sandbox", () => {
  test("is stopped, extended, given a policy and snapshotted by its session's id", async () => {
    const { ask, asked } = apiClient();
    const stopped = await ask("POST", `${one}/stop`);
    expect(stopped.json).toEqual({ sandbox: expect.objectContaining({ id: sessionId, status: "stopped" }) });
    expect((await ask("POST", `${one}/extend-timeout`, { duration: 5000 })).json.sandbox.id).toBe(sessionId);
    expect(asked("sessions.extend")).toEqual([[{ teamId: "team_default" }, sessionId, 5000]]);
    const captured = await ask("POST", `${one}/snapshot`, { expiration: 86_400_000 });
    expect(captured.status).toBe(201);
    expect(captured.json).toMatchObject({
      snapshot: { id: snapshotId, sourceSandboxId: sessionId },
      sandbox: { id: sessionId, status: "snapshotting" },
    });
    await ask("POST", `${one}/snapshot`);
    expect(asked("sessions.snapshot").map(([, , options]) => options)).toEqual([{ expiration: 86_400_000 }, {}]);
  });

  test.each([
    [{ mode: "deny-all" }, { mode: "deny-all" }],
    [{ mode: "default-deny" }, { mode: "custom", domains: [], allowedCidrs: [], deniedCidrs: [] }],
    [{ mode: "default-allow" }, { mode: "allow-all" }],
    [
      { mode: "default-allow", deniedCIDRs: ["10.0.0.0/8"] },
      {
        mode: "custom",
        domains: [{ domain: "*", rules: [] }],
        allowedCidrs: ["0.0.0.0/0", "::/0"],
        deniedCidrs: ["10.0.0.0/8"],
      },
    ],
    [
      { mode: "custom", injectionRules: [{ domain: "a.test", headers: { x: "secret" } }] },
      {
        mode: "custom",
        domains: [{ domain: "a.test", rules: [{ action: { kind: "set-headers", headers: { x: "secret" } } }] }],
        allowedCidrs: [],
        deniedCidrs: [],
      },
    ],
  ])("takes the policy %j", async (wire, policy) => {
    const { ask, asked } = apiClient();
    const { status, json } = await ask("POST", `${one}/network-policy`, wire);
    expect(status).toBe(200);
    expect(json.sandbox.id).toBe(sessionId);
    expect(asked("sessions.setNetworkPolicy")[0]?.[2]).toEqual(policy);
  });

  test.each(["stopped", "stopping", "snapshotting"] as const)("that is %s says so", async (state) => {
    const { ask } = apiClient({ "commands.run": failingAs(state) });
    const { status, json } = await ask("POST", `${one}/cmd`, { command: "true" });
    expect(json.error.code).toBe(`sandbox_${state}`);
    expect(status).toBe(state === "stopped" ? 410 : 422);
  });

  test.each([
    ["vercel/sandbox/1.0.2 (Node.js/v24; linux/x64)", "aborted", "failed"],
    ["vercel/sandbox/1.0.2 (Node.js/v24; linux/x64)", "snapshotting", "stopping"],
    ["vercel/sandbox/1.1.1", "snapshotting", "snapshotting"],
    ["vercel/sandbox/1.4.9", "aborted", "failed"],
    ["vercel/sandbox/1.5.0", "aborted", "aborted"],
    ["vercel/sandbox-cli/2.5.12 vercel/sandbox/1.10.2 (Node.js/v24)", "aborted", "aborted"],
    ["curl/8", "aborted", "aborted"],
    ["vercel/sandbox/1.0.2", "stopped", "stopped"],
  ])("to %s one that is %s is %s", async (agent, state, status) => {
    const { ask } = apiClient({ "sessions.get": async () => ({ ...session, state }) });
    const { json } = await ask("GET", one, undefined, { headers: { "user-agent": agent } });
    expect(json.sandbox.status).toBe(status);
  });

  test.each(["snapshots", "named", "sessions", "demo", "sbx_", "cmd"])("is not called %s", async (word) => {
    const { ask, calls } = apiClient();
    for (const path of [`/api/v1/sandboxes/${word}/stop`, `/api/v1/sandboxes/${word}/cmd/${commandId}`]) {
      const method = path.endsWith("stop") ? "POST" : "GET";
      const { status, json } = await ask(method, path);
      expect([status, json.error.code]).toEqual([404, "not_found"]);
    }
    expect(calls.filter(({ method }) => !method.startsWith("access."))).toEqual([]);
  });
});

describe("commands", () => {
  test("with `wait` are two lines, the command as it begins and as it ended", async () => {
    const { ask, asked } = apiClient();
    const { text, headers } = await ask("POST", `${one}/cmd`, { command: "echo", args: ["hi"], wait: true });
    expect(headers.get("content-type")).toBe("application/x-ndjson");
    const lines = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines).toEqual([
      { command: expect.objectContaining({ id: commandId, sandboxId: sessionId, exitCode: null }) },
      { command: expect.objectContaining({ id: commandId, sandboxId: sessionId, exitCode: 0 }) },
    ]);
    expect(lines[0].command).not.toHaveProperty("sessionId");
    expect(asked("commands.output")).toEqual([]);
  });

  test("that lose their sandbox are shown as killed, because clients accept no other second line", async () => {
    const { ask } = apiClient({
      "commands.wait": async () => ({ ...endedCommand, exitCode: undefined, endCause: "session-ended" }),
    });
    const { text } = await ask("POST", `${one}/cmd`, { command: "sleep", wait: true });
    expect(JSON.parse(text.trimEnd().split("\n")[1] ?? "").command.exitCode).toBe(137);
  });

  test("are listed, read, waited for and killed under their sandbox", async () => {
    const { ask, asked } = apiClient();
    const started = await ask("POST", `${one}/cmd`, { command: "echo", args: ["hi"], env: {}, sudo: false });
    expect(started.json.command).toMatchObject({ id: commandId, sandboxId: sessionId, exitCode: null });
    expect((await ask("GET", `${one}/cmd`)).json.commands).toMatchObject([{ id: commandId, sandboxId: sessionId }]);
    for (const query of ["", "?wait=true"]) {
      const { json } = await ask("GET", `${one}/cmd/${commandId}${query}`);
      expect(json.command).toMatchObject({ sandboxId: sessionId, exitCode: 0 });
    }
    expect((await ask("GET", `${one}/cmd/${commandId}/logs`)).text).toBe('{"stream":"stdout","data":"hi\\n"}\n');
    expect((await ask("POST", `${one}/${commandId}/kill`, { signal: 9 })).json.command.sandboxId).toBe(sessionId);
    expect(asked("commands.kill")[0]?.slice(1)).toEqual([sessionId, commandId, 9, { alone: true }]);
    expect((await ask("POST", `${one}/cmd/${commandId}/kill`, { signal: 9 })).status).toBe(404);
  });

  test.each(["logs", "timeout", "user"])("refuse the field %s", async (member) => {
    const { ask, asked } = apiClient();
    const { status } = await ask("POST", `${one}/cmd`, { command: "true", wait: true, [member]: true });
    expect(status).toBe(400);
    expect(asked("commands.run")).toEqual([]);
  });
});

test("the documented base path, without /api, leads to the same routes", async () => {
  const { ask } = apiClient();
  expect((await ask("GET", "/v1/sandboxes")).json).toEqual((await ask("GET", "/api/v1/sandboxes")).json);
  for (const path of ["/v1/sandboxes", "/api/v1/sandboxes", `/v1/sandboxes/${sessionId}`]) {
    const { status, json } = await ask("GET", path, undefined, { token: null });
    expect([status, json.error.code]).toEqual([401, "unauthorized"]);
  }
});
