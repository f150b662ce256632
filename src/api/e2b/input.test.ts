/** Invalid input on every route is a 4xx in E2B's format, and changes nothing. */

import { expect, test } from "vitest";
import { apiClient } from "../../../test/harness/api-client.ts";
import { key, sandbox, session } from "../../../test/harness/fake-core.ts";
import { labelOf } from "../../core/model/sandbox-label.ts";

const id = labelOf(sandbox.id);
const team = sandbox.teamId;
const known = {
  "sandboxes.byId": async () => sandbox,
  "sessions.get": async () => session,
  "snapshots.list": async () => ({ items: [] }),
  "templates.get": async () => undefined,
  "templates.build": async () => undefined,
  "templates.start": async () => undefined,
};
const reading = [
  ...["access.authenticate", "access.owner", "sandboxes.byId", "sessions.get", "snapshots.list"],
  ...["templates.use", "templates.lookUp", "templates.get", "templates.build"],
];
const build = "/v2/templates/abcdefghij0123456789/builds/00000000-0000-4000-8000-000000000000";
const hash = "0".repeat(64);

// One for all tests, as making an API takes longer than a request; it keeps nothing of a request that it refuses.
const client = apiClient(known);

async function ask(method: string, path: string, body?: unknown) {
  client.calls.length = 0;
  client.logged.length = 0;
  const answer = await client.ask(method, path, body, { token: null, headers: { "x-api-key": key } });
  const changes = client.calls.filter(({ method: name }) => !reading.includes(name));
  return { ...answer, changes, logged: [...client.logged] };
}

const create = { templateID: "base" };
const bodies: [string, string, unknown[]][] = [
  [
    "POST",
    "/v2/sandboxes",
    [
      "",
      "{",
      "[]",
      {},
      { templateID: "" },
      { templateID: 1 },
      { ...create, timeout: -1 },
      { ...create, timeout: 1.5 },
      { ...create, timeout: 10 ** 9 },
      { ...create, timeout: "60" },
      { ...create, metadata: { a: 1 } },
      { ...create, metadata: { a: "\u0000" } },
      { ...create, envVars: { "a=b": "c" } },
      { ...create, unknown: true },
      { ...create, iam: { tokens: {} } },
      { ...create, mcp: { browserbase: {} } },
      { ...create, autoResume: { enabled: true } },
      { ...create, autoPauseMemory: false },
      { ...create, autoPause: true, autoPauseMemory: false, autoResume: { enabled: true } },
      { ...create, network: { egressProxy: { address: "a:1" } } },
      { ...create, network: { httpsPorts: [8443] } },
      { ...create, network: { allowOut: ["example.com"] } },
      { ...create, network: { allowOut: ["http://a"] } },
      { ...create, network: { denyOut: ["example.com"] } },
      { ...create, network: { denyOut: ["1.2.3.4/33"] } },
      { ...create, network: { rules: { "example.com": [{ transform: { headers: { "a b": "c" } } }] } } },
      { ...create, network: { rules: { "example.com": [{ transform: { headers: { a: "b\r\nc: d" } } }] } } },
      { ...create, network: { rules: { "1.2.3.4": [{}] } } },
      { ...create, network: { rules: { "1.2.3.0/24": [{}] } } },
      { ...create, network: { rules: { "example.com": [{ transform: "no" }] } } },
      { ...create, network: { maskRequestHost: "a b" } },
      { ...create, volumeMounts: [{ name: "a/b", path: "/data" }] },
      { ...create, volumeMounts: [{ name: "a", path: "data" }] },
    ],
  ],
  ["POST", "/sandboxes", [{}, { ...create, timeout: -1 }]],
  ["POST", `/v2/sandboxes/${id}/connect`, [{ timeout: -1 }, { memory: "no" }, { more: 1 }]],
  ["POST", `/sandboxes/${id}/connect`, [{ timeout: "a" }]],
  ["POST", `/sandboxes/${id}/resume`, [{ timeout: -5 }, { autoPause: 1 }]],
  ["POST", `/sandboxes/${id}/pause`, [{ memory: 1 }, "[1]"]],
  ["POST", `/sandboxes/${id}/timeout`, [{}, { timeout: -1 }, { timeout: null }]],
  ["POST", `/sandboxes/${id}/refreshes`, [{ duration: 3601 }, { duration: -1 }]],
  ["POST", `/sandboxes/${id}/fork`, [{ count: 0 }, { count: 101 }, { timeout: -1 }]],
  ["PUT", `/sandboxes/${id}/network`, [{ allowOut: ["a.b"] }, { allowPublicTraffic: false }, { denyOut: "all" }]],
  ["POST", `/sandboxes/${id}/snapshots`, [{ name: "" }, { name: "a b" }, { name: "../x" }, { name: "a:b:c" }]],
  ["POST", "/volumes", [{}, { name: "a b" }, { name: "" }, { name: "a".repeat(1000) }, { name: "a", size: 1 }, "[]"]],
  [
    "POST",
    "/v3/templates",
    [
      {},
      { name: "" },
      { name: 1 },
      { name: "a", cpuCount: 0 },
      { name: "a", cpuCount: 10_000 },
      { name: "a", memoryMB: 1 },
      { name: "a", minFreeDiskMb: 10 ** 12 },
      { name: "a", tags: "b" },
      { name: "a", other: 1 },
    ],
  ],
  [
    "POST",
    build,
    [
      "[]",
      { fromImage: "a", fromTemplate: "b" },
      { fromImage: "a", fromImageRegistry: { type: "registry", username: "a", password: "b" } },
      { steps: [{ type: "ONBUILD", args: ["x"] }] },
      { steps: [{ type: "constructor", args: ["x"] }] },
      { steps: [{ type: "RUN", args: [] }] },
      { steps: [{ type: "RUN", args: ["true", "a b"] }] },
      { steps: [{ type: "RUN", args: ["a\0b"] }] },
      { steps: [{ type: "COPY", args: ["a", "/b", "", ""] }] },
      { steps: [{ type: "COPY", args: ["a"], filesHash: hash }] },
      { steps: [{ type: "COPY", args: ["a", "/b", "", "9"], filesHash: hash }] },
      { steps: [{ type: "COPY", args: ["a", "/b", "-x", ""], filesHash: hash }] },
      { steps: [{ type: "COPY", args: ["a", "/b"], filesHash: "../../etc" }] },
      { steps: [{ type: "WORKDIR", args: [] }] },
      { steps: [{ type: "USER", args: ["$(id)"] }] },
      { steps: [{ type: "ENV", args: ["A"] }] },
      { steps: [{ type: "ENV", args: ["A=B", "c"] }] },
      { startCmd: 1 },
      { readyCmd: "a\0b" },
      { steps: Array(1001).fill({ type: "RUN", args: ["true"] }) },
      {
        steps: [
          { type: "ENV", args: ["A", "x".repeat(60_000), "B", "$A"] },
          { type: "ENV", args: ["B", "$A$A"] },
        ],
      },
      { fromTemplate: "" },
      { other: true },
    ],
  ],
  ["PATCH", "/v2/templates/a", [{}, { public: "yes" }, { public: true, name: "b" }]],
  [
    "POST",
    "/templates/tags",
    [{}, { target: "a" }, { target: "a", tags: [] }, { target: "a", tags: Array(101).fill("b") }],
  ],
  [
    "DELETE",
    "/templates/tags",
    [{}, { name: "a", tags: [1] }, { name: "a".repeat(385), tags: ["b"] }, { name: "a", tags: [] }],
  ],
  [
    "POST",
    "/secrets",
    [
      {},
      { name: "a" },
      { name: "a{b}", value: "c" },
      { name: "", value: "c" },
      { name: "a", value: "b", metadata: { c: 1 } },
      { name: "a\nb", value: "c" },
      { name: "a", value: "b".repeat((64 << 10) + 1) },
      { name: "a", value: "b\0c" },
      { name: "a", value: "b", metadata: Object.fromEntries(Array.from({ length: 51 }, (_, at) => [at, ""])) },
    ],
  ],
  ["POST", "/secrets/a", [{}, { value: "" }, { name: "b", value: "c" }]],
];

test.each(bodies.flatMap(([method, path, list]) => list.map((body) => [method, path, body] as const)))(
  "%s %s with %j is refused",
  async (method, path, body) => {
    const { status, json, changes, logged } = await ask(method, path, body);
    expect([status, json]).toEqual([400, { code: 400, message: expect.stringMatching(/^[A-Z].* .*/) }]);
    expect([changes, logged]).toEqual([[], []]);
  },
);

test.each([
  "/v2/sandboxes?limit=0",
  "/v2/sandboxes?limit=101",
  "/v2/sandboxes?limit=a",
  "/v2/sandboxes?state=stopped",
  "/v2/sandboxes?state=",
  "/v2/sandboxes?order=up",
  "/v2/sandboxes?startedAfter=yesterday",
  "/v2/sandboxes?metadata=a",
  "/v2/sandboxes?metadata=a%3Db%3Dc",
  "/v2/sandboxes?metadata=a%3D%2525%25",
  "/v2/sandboxes?other=1",
  "/sandboxes?metadata=%25",
  `/sandboxes/${id}?a=b`,
  `/sandboxes/${id}/metrics?start=-1`,
  `/teams/${team}/metrics?start=5&end=5`,
  `/teams/${team}/metrics?start=0&end=${32 * 86_400}`,
  `/teams/${team}/metrics?end=tomorrow`,
  `/teams/${team}/metrics?step=5`,
  `/teams/${team}/metrics/max`,
  `/teams/${team}/metrics/max?metric=memory`,
  "/sandboxes/metrics",
  `/sandboxes/${id}/logs?limit=1001`,
  `/v2/sandboxes/${id}/logs?direction=up`,
  `/v2/sandboxes/${id}/logs?level=loud`,
  "/snapshots?limit=1000",
  "/v2/templates?limit=0",
  "/templates?limit=1",
  `/templates/a/files/${"z".repeat(64)}`,
  `${build.slice(3)}/status?logsOffset=-1`,
  `${build.slice(3)}/status?limit=101`,
  `${build.slice(3)}/logs?direction=up`,
  `${build.slice(3)}/logs?source=other`,
  "/secrets?limit=0",
])("GET %s", async (path) => {
  const { status, json, changes } = await ask("GET", path);
  expect([status, json.code, changes]).toEqual([400, 400, []]);
});

test.each([
  ["GET", ""],
  ["DELETE", ""],
  ["POST", "/pause"],
  ["POST", "/resume"],
  ["POST", "/connect"],
  ["POST", "/snapshots"],
  ["POST", "/fork"],
  ["PUT", "/network"],
  ["GET", "/metrics"],
  ["GET", "/logs"],
])("%s of an unknown sandbox, %s, is 404", async (method, rest) => {
  for (const unknown of ["i1", "sandbox_1", "I1ABC", "a".repeat(300)]) {
    const { status, json, changes } = await ask(method, `/sandboxes/${unknown}${rest}`);
    expect([status, json?.code ?? 404, changes]).toEqual([404, 404, []]);
  }
});

test.each([
  ["POST", "/templates"],
  ["POST", "/templates/a"],
  ["POST", "/templates/a/builds/b"],
  ["POST", "/api-keys"],
  ["GET", "/events/sandboxes"],
  ["POST", "/events/webhooks"],
  ["DELETE", "/access-tokens/a"],
])("%s %s is refused with the reason", async (method, path) => {
  const { status, json, changes } = await ask(method, path);
  expect([status, json, changes]).toEqual([
    400,
    { code: 400, message: expect.stringMatching(/^Cannot serve this: /) },
    [],
  ]);
});

test.each(["metrics", "metrics/max?metric=sandbox_start_rate"])("%s of another team are 403", async (rest) => {
  const { status, json, changes } = await ask("GET", `/teams/team_other/${rest}`);
  expect([status, json.code, changes]).toEqual([403, 403, []]);
});

test("an address for files is refused unless its hash, its time and its token belong together", async () => {
  const end = Math.floor(Date.now() / 1000) + 60;
  for (const [path, wanted] of [
    [`/template-files/${hash}/${end}/team.key.00`, 401],
    [`/template-files/${hash}/${end}/team`, 401],
    [`/template-files/${hash}/${end}/%00`, 401],
    [`/template-files/${hash}/1/team.key.00`, 401],
    [`/template-files/..%2F..%2Fetc/${end}/team.key.00`, 400],
    [`/template-files/${hash}/soon/team.key.00`, 404],
    [`/template-files/${"z".repeat(64)}/${end}/team.key.00`, 400],
    [`/template-files/${hash}`, 404],
  ] as const) {
    for (const method of ["PUT", "GET"]) {
      const { status, json, changes } = await ask(method, path, method === "PUT" ? "tar" : undefined);
      const expected = method === "PUT" ? wanted : 404;
      expect([method, path, status, json.code, changes]).toEqual([method, path, expected, expected, []]);
    }
  }
});
