/** Sandboxes on Vercel's wire: what the routes pass to the core, and what they answer. */

import { describe, expect, test } from "vitest";
import { apiClient } from "../../../test/harness/api-client.ts";
import { failing, sandbox, session, snapshot, time } from "../../../test/harness/fake-core.ts";
import type { Subject } from "../../core/model/errors.ts";
import { wantedImage } from "./image-names.ts";

/** user and directory of the hosted images */
const home = { user: "ubuntu", cwd: "/vercel", instead: { user: "vercel-sandbox", cwd: "/vercel/sandbox" } };

const owner = { teamId: "team_default", projectId: "prj_default" };

describe("create", () => {
  test("every field reaches the core", async () => {
    const { ask, asked } = apiClient();
    const { status } = await ask("POST", "/api/v3/sandboxes?teamId=team_default", {
      projectId: "default",
      name: "e1",
      ports: [3000],
      source: {
        type: "git",
        url: "https://example.com/x.git",
        depth: 1,
        revision: "main",
        username: "u",
        password: "p",
      },
      timeout: 600_000,
      resources: { vcpus: 4, memory: 8192 },
      image: "my-repo:v1",
      persistent: false,
      networkPolicy: { mode: "deny-all" },
      networkId: "net_1",
      env: { A: "1" },
      tags: { env: "dev" },
      snapshotExpiration: 604_800_000,
      keepLastSnapshots: { count: 2, expiration: 0 },
      mounts: { "/data": { drive: "d9" }, "/s": { drive: "d9", mode: "read-only" } },
      region: "sfo1",
      failoverRegions: ["iad1"],
      __anything: [1],
    });
    expect(status).toBe(200);
    expect(asked("sandboxes.create")).toEqual([
      [
        owner,
        {
          base: { image: wantedImage("my-repo:v1"), home },
          name: "e1",
          ports: [3000],
          source: {
            kind: "git",
            url: "https://example.com/x.git",
            depth: 1,
            revision: "main",
            username: "u",
            password: "p",
            directory: "x",
          },
          timeout: 600_000,
          vcpus: 4,
          persistent: false,
          networkPolicy: { mode: "deny-all" },
          networkId: "net_1",
          env: { A: "1" },
          tags: { env: "dev" },
          snapshotExpiration: 604_800_000,
          keepLastSnapshots: { count: 2, expiration: 0, deleteEvicted: true },
          mounts: { "/data": { drive: "d9", mode: "read-write" }, "/s": { drive: "d9", mode: "snapshot" } },
          region: "sfo1",
          failoverRegions: ["iad1"],
        },
      ],
    ]);
  });

  test.each([
    ["v2", {}, { runtime: "node24" }],
    ["v2", { runtime: "node22" }, { runtime: "node22" }],
    ["v2", { image: "x" }, { image: wantedImage("x"), home: undefined }],
    ["v2", { source: { type: "snapshot", snapshotId: "snap_1" } }, {}],
    ["v3", {}, { home }],
    ["v4", {}, { home }],
    ["v3", { runtime: "node22" }, { runtime: "node22", home: undefined }],
  ])("%s with %j boots from %j", async (version, body, base) => {
    const { ask, asked } = apiClient();
    await ask("POST", `/api/${version}/sandboxes`, body);
    expect(asked("sandboxes.create")[0]?.[1]).toMatchObject({ base });
  });

  test("the answer has the sandbox, its session and its routes, and nothing is null or secret", async () => {
    const { ask } = apiClient();
    const { json, text } = await ask("POST", "/api/v3/sandboxes", {});
    expect(json.sandbox).toMatchObject({
      name: "demo",
      status: "running",
      runtime: "node24",
      currentSessionId: session.id,
      expiresAt: time + 300_000,
      cwd: "/vercel/sandbox",
      statusUpdatedAt: time,
    });
    expect(json.session).toMatchObject({
      id: session.id,
      status: "running",
      runtime: "node24",
      interactivePort: 26661,
      sourceSandboxName: "demo",
      projectId: "prj_default",
    });
    expect(json.routes).toEqual([
      {
        url: "http://sb-abc.localhost:7700",
        subdomain: "sb-abc",
        port: 3000,
        pathUrl: expect.stringMatching(/^http:\/\/.+\/port\/sb-abc$/),
      },
    ]);
    expect(text).not.toContain("null");
    expect(text).not.toContain("of the sandbox");
  });

  test("the platform's own route is listed on request", async () => {
    const { ask } = apiClient();
    const { json } = await ask("POST", "/api/v3/sandboxes", { __interactive: true });
    expect(json.routes[1]).toMatchObject({ port: 26661, system: true });
  });

  test("a name in use is a bad request, in the hosted service's words", async () => {
    const { ask } = apiClient({ "sandboxes.create": failing("exists", undefined, { kind: "sandbox" }) });
    const { status, json } = await ask("POST", "/api/v3/sandboxes", { name: "demo" });
    expect([status, json.error]).toEqual([
      400,
      {
        code: "bad_request",
        message:
          "A sandbox with the name 'demo' already exists for this project. Use GET /sandboxes/:name to resume it or delete it first.",
      },
    ]);
  });

  test.each([
    [{ ports: Array(16).fill(3000) }, "Invalid request: `ports` should NOT have more than 15 items."],
    [{ surprise: 1 }, "Invalid request: should NOT have additional property `surprise`."],
    [{ timeout: 999 }, "Invalid request: `timeout` should be >= 1000."],
    [{ timeout: "1h" }, "Invalid request: `timeout` should be number."],
    [{ resources: { vcpus: 3 } }, "Invalid request: `resources.vcpus` should be 1 or an even number."],
    [
      { resources: { vcpus: 2, memory: 1 } },
      "Invalid request: `resources.memory` should be 2048 times `resources.vcpus`.",
    ],
    [{ runtime: "node24", image: "x" }, "Invalid request: `runtime` and `image` should NOT be given together."],
    [{ snapshotExpiration: 1 }, "`snapshotExpiration` must be 0 (no expiration) or >= 86400000 ms (1 day)."],
    [{ name: "sessions" }, "Invalid request: `name` should NOT be one of sessions, snapshots, drives, named."],
    [{ mounts: { data: { drive: "d" } } }, "Invalid request: a path in `mounts` should be absolute, and not the root."],
    [
      { mounts: { "/a": { drive: "d" }, "/a/b": { drive: "e" } } },
      "Invalid request: the paths in `mounts` should NOT overlap.",
    ],
    [
      { tags: { a: "1", b: "2", c: "3", d: "4", e: "5", f: "6" } },
      "Invalid request: `tags` should NOT have more than 5 properties.",
    ],
    [{ source: { type: "git" } }, "Invalid request: missing required property `source.url`."],
    [{ source: { type: "git", url: "file:///etc" } }, "Invalid request: `source.url` should be an http or https URL."],
  ])("%j is refused", async (body, message) => {
    const { ask, asked } = apiClient();
    const { status, json } = await ask("POST", "/api/v3/sandboxes", body);
    expect([status, json.error]).toEqual([400, { code: "bad_request", message }]);
    expect(asked("sandboxes.create")).toEqual([]);
  });

  test("every limit can be set", async () => {
    const { ask } = apiClient({}, { ports: 1, timeout: 5000, vcpus: 2 });
    const { json } = await ask("POST", "/api/v3/sandboxes", { ports: [3000, 3001] });
    expect(json.error.message).toBe("Invalid request: `ports` should NOT have more than 1 items.");
    expect((await ask("POST", "/api/v3/sandboxes", { timeout: 5001 })).status).toBe(400);
    expect((await ask("POST", "/api/v3/sandboxes", { resources: { vcpus: 4 } })).status).toBe(400);
  });

  test.each([
    ["prj_foreign", 403],
    ["prj_unknown", 404],
  ])("in project %s it is refused with %i", async (projectId, expected) => {
    const { ask, asked } = apiClient();
    expect((await ask("POST", "/api/v3/sandboxes", { projectId })).status).toBe(expected);
    expect(asked("sandboxes.create")).toEqual([]);
  });

  test.each(["teamId", "slug"])("a foreign team in `%s` is refused with 403", async (name) => {
    const { ask, asked } = apiClient();
    expect((await ask("POST", `/api/v3/sandboxes?${name}=team_other`, {})).status).toBe(403);
    expect(asked("sandboxes.create")).toEqual([]);
  });

  test.each([
    ["limit", 429, "rate_limited"],
    ["conflict", 409, "conflict", { kind: "drive" }],
    ["gone", 410, "snapshot_not_found", { kind: "snapshot" }],
    ["not-found", 404, "not_found"],
    ["invalid", 400, "bad_request"],
  ] as const)("the core's error %s is %i %s", async (code, status, word, about?: Subject) => {
    const { ask } = apiClient({ "sandboxes.create": failing(code, "Cannot: because", about) });
    const reply = await ask("POST", "/api/v3/sandboxes", {});
    expect([reply.status, reply.json.error]).toEqual([status, { code: word, message: "Cannot: because" }]);
    if (status === 429) expect(reply.headers.get("retry-after")).toBe("1");
  });
});

describe("a create whose client disconnected", () => {
  const vanishing = (gone: AbortController) => ({
    "sandboxes.create": async () => {
      gone.abort();
      return { sandbox, session };
    },
  });

  test("is undone when it has neither a name nor an idempotency key", async () => {
    const gone = new AbortController();
    const { ask, asked } = apiClient(vanishing(gone));
    await ask("POST", "/api/v3/sandboxes", {}, { signal: gone.signal });
    expect(asked("sandboxes.abandon")).toEqual([[owner, sandbox.id]]);
  });

  test("is undone also when the client disconnects while the answer is being sent", async () => {
    const gone = new AbortController();
    const { ask, asked } = apiClient();
    await ask("POST", "/api/v3/sandboxes", {}, { signal: gone.signal });
    expect(asked("sandboxes.abandon")).toEqual([]);
    gone.abort();
    expect(asked("sandboxes.abandon")).toEqual([[owner, sandbox.id]]);
  });

  test("stays when it has a name", async () => {
    const gone = new AbortController();
    const { ask, asked } = apiClient(vanishing(gone));
    await ask("POST", "/api/v3/sandboxes", { name: "mine" }, { signal: gone.signal });
    expect(asked("sandboxes.abandon")).toEqual([]);
  });

  test("stays when an idempotency key finds it", async () => {
    const gone = new AbortController();
    const { ask, asked } = apiClient(vanishing(gone));
    await ask("POST", "/api/v3/sandboxes", {}, { signal: gone.signal, headers: { "idempotency-key": "k" } });
    expect(asked("sandboxes.abandon")).toEqual([]);
  });
});

test("a create that is repeated with its idempotency key happens once", async () => {
  const { ask, asked } = apiClient();
  const headers = { "idempotency-key": "k1" };
  const first = await ask("POST", "/api/v3/sandboxes", {}, { headers });
  const second = await ask("POST", "/api/v3/sandboxes", {}, { headers });
  expect(second.json).toEqual(first.json);
  expect(asked("sandboxes.create")).toHaveLength(1);
});

describe("list", () => {
  test("filters, sort and cursor reach the core, and the next cursor comes back", async () => {
    const { ask, asked } = apiClient({
      "sandboxes.listWithSessions": async () => ({ items: [{ sandbox, session }], next: "c2" }),
    });
    const query = "project=default&limit=10&cursor=c1&sortBy=name&sortOrder=asc&namePrefix=de&tags=env%3Aa%3Ab";
    const { json } = await ask("GET", `/api/v2/sandboxes?${query}`);
    expect(asked("sandboxes.listWithSessions")).toEqual([
      [owner, { limit: 10, cursor: "c1", order: "asc", sortBy: "name", namePrefix: "de", tags: { env: "a:b" } }],
    ]);
    expect(json.pagination).toEqual({ count: 1, next: "c2" });
    expect(json.sandboxes[0]).toMatchObject({ name: "demo", expiresAt: session.expiresAt });
  });

  test("by default newest first, twenty per page, and no next cursor on the last page", async () => {
    const { ask, asked } = apiClient();
    const { json } = await ask("GET", "/api/v2/sandboxes");
    expect(asked("sandboxes.listWithSessions")).toEqual([[owner, { limit: 20, order: "desc", sortBy: "createdAt" }]]);
    expect(json.pagination).toEqual({ count: 1, next: null });
  });

  test.each([
    ["running", ["pending", "running"]],
    ["stopping", ["snapshotting", "stopping"]],
    ["stopped", ["paused", "stopped", "failed", "aborted"]],
  ])("status %s means the states %j", async (status, states) => {
    const { ask, asked } = apiClient();
    await ask("GET", `/api/v2/sandboxes?status=${status}`);
    expect(asked("sandboxes.listWithSessions")[0]?.[1]).toMatchObject({ states });
  });

  test.each([
    ["namePrefix=x", "`namePrefix` is only valid when `sortBy` is `name`"],
    ["sortBy=name&status=running", "`status` is only valid when `sortBy` is `createdAt`"],
    ["tags=a:1&tags=b:2", "only one tag filter is supported at a time."],
    ["tags=a", "`tags` should be of the form `key:value`."],
    ["limit=51", "`limit` should be <= 50."],
    ["limit=x", '`limit` should match pattern "/^\\d{1,9}$/".'],
    ["color=red", "should NOT have additional property `color`."],
  ])("%s is refused", async (query, message) => {
    const { ask, asked } = apiClient();
    const { status, json } = await ask("GET", `/api/v2/sandboxes?${query}`);
    expect([status, json.error.message]).toEqual([400, `Invalid request: ${message}`]);
    expect(asked("sandboxes.listWithSessions")).toEqual([]);
  });

  test("tags of other wires are printed as text", async () => {
    const tagged = { ...sandbox, tags: { a: 1, b: { c: [true] } } };
    const { ask } = apiClient({
      "sandboxes.listWithSessions": async () => ({ items: [{ sandbox: tagged, session }] }),
    });
    const { json } = await ask("GET", "/api/v2/sandboxes");
    expect(json.sandboxes[0].tags).toEqual({ a: "1", b: '{"c":[true]}' });
  });
});

describe("get", () => {
  test("without `resume` the sandbox is not resumed", async () => {
    const { ask, asked } = apiClient();
    const { json } = await ask("GET", "/api/v2/sandboxes/demo?projectId=default&__includeSystemRoutes=true");
    expect(json.resumed).toBe(false);
    expect(json.routes.map(({ port }: { port: number }) => port)).toEqual([3000, 26661]);
    expect(asked("sandboxes.resume")).toEqual([]);
  });

  test("with `resume=true` the answer says whether it was resumed", async () => {
    const { ask } = apiClient();
    expect((await ask("GET", "/api/v2/sandboxes/demo?resume=true")).json.resumed).toBe(true);
  });

  test.each([
    ["conflict", 400, "snapshot_not_found"],
    ["gone", 410, "snapshot_not_found"],
  ] as const)("a resume that fails with %s of its snapshot is %i %s", async (code, status, word) => {
    const { ask } = apiClient({ "sandboxes.resume": failing(code, undefined, { kind: "snapshot" }) });
    const reply = await ask("GET", "/api/v2/sandboxes/demo?resume=true");
    expect([reply.status, reply.json.error.code]).toEqual([status, word]);
  });

  test.each(["nope", "a%20b", "%00", "%ff", "x".repeat(129), "..%2f..%2fetc"])("%s is not found", async (name) => {
    const { ask } = apiClient();
    const { status, json } = await ask("GET", `/api/v2/sandboxes/${name}`);
    expect([status, json.error.code]).toEqual([404, "not_found"]);
    expect(json.error.message).toMatch(/^Named sandbox '.*' not found for this project\.$/s);
  });

  test.each([
    ["pending", "running"],
    ["snapshotting", "stopping"],
    ["failed", "stopped"],
    ["aborted", "stopped"],
  ])("a session that is %s is a sandbox that is %s", async (state, status) => {
    const { ask } = apiClient({
      "sandboxes.get": async () => ({ sandbox: { ...sandbox, state }, session: { ...session, state } }),
    });
    const { json } = await ask("GET", "/api/v2/sandboxes/demo");
    expect([json.sandbox.status, json.session.status]).toEqual([status, state]);
  });
});

describe("change", () => {
  test("changes only what was sent", async () => {
    const { ask, asked } = apiClient();
    const { json } = await ask("PATCH", "/api/v2/sandboxes/demo", {
      resources: { vcpus: 4, memory: 8192 },
      networkId: null,
      keepLastSnapshots: null,
      tags: {},
      ports: [3000, 8080],
      currentSnapshotId: snapshot.id,
    });
    expect(asked("sandboxes.update")).toStrictEqual([
      [
        owner,
        "demo",
        {
          vcpus: 4,
          networkId: null,
          keepLastSnapshots: null,
          tags: {},
          ports: [3000, 8080],
          currentSnapshotId: snapshot.id,
        },
      ],
    ]);
    expect(json.routes).toHaveLength(1);
    expect(json.sandbox.expiresAt).toBe(session.expiresAt);
  });

  test.each([{ name: "x" }, { source: {} }, { image: "x" }, { timeout: null }])("%j is refused", async (body) => {
    const { ask, asked } = apiClient();
    expect((await ask("PATCH", "/api/v2/sandboxes/demo", body)).status).toBe(400);
    expect(asked("sandboxes.update")).toEqual([]);
  });
});

test("a delete answers with the sandbox, and deletes its snapshots only on request", async () => {
  const { ask, asked } = apiClient();
  expect((await ask("DELETE", "/api/v2/sandboxes/demo?projectId=default")).json.sandbox.status).toBe("stopped");
  await ask("DELETE", "/api/v2/sandboxes/demo?deleteOrphanSnapshots=true");
  expect(asked("sandboxes.delete").map(([, , options]) => options)).toEqual([
    { orphanSnapshots: false },
    { orphanSnapshots: true },
  ]);
});

test("a fork accepts overrides, including an image, but no other source", async () => {
  const { ask, asked } = apiClient();
  const { json } = await ask("POST", "/api/v2/sandboxes/demo/fork", {
    name: "f",
    env: {},
    image: "i",
    __interactive: true,
  });
  expect(json.session.interactivePort).toBe(26661);
  expect(asked("sandboxes.fork")).toStrictEqual([[owner, "demo", { name: "f", env: {} }, wantedImage("i")]]);
  expect((await ask("POST", "/api/v2/sandboxes/demo/fork", { source: {} })).status).toBe(400);
  expect((await ask("POST", "/api/v2/sandboxes/demo/fork")).status).toBe(200);
});
