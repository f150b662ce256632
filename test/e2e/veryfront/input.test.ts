/**
 * Every route of Veryfront's API with invalid input, and with the key of a second team: a problem with a sentence, and
 * nothing is changed or revealed.
 */

import { beforeAll, describe, expect, test } from "vitest";
import { veryfrontApi } from "../../../src/api/veryfront/veryfront.ts";
import { daemonOfFile } from "../../harness/daemon.ts";
import { fakeCore } from "../../harness/fake-core.ts";
import { type RawAnswer, type RawOptions, raw } from "../clients.ts";
import { secondTeam } from "../instavm/instavm.ts";

const daemon = daemonOfFile();
let session = "";
let command = "";
let foreignKey = "";

const ask = (method: string, path: string, options?: RawOptions) => raw(daemon(), method, path, options);
const filled = (path: string) => path.replace(":session", session).replace(":command", command);

beforeAll(async () => {
  foreignKey = await secondTeam(daemon());
  session = (await ask("POST", "/sandbox-sessions", { body: { ttl_mode: "always_on" } })).json.id;
  const body = { command: "echo secret; exec sleep 600" };
  command = (await ask("POST", `/sandbox-sessions/${session}/commands`, { body })).json.id;
  await ask("POST", `/sandbox-sessions/${session}/files`, { body: { files: [{ path: "f", content: "secret" }] } });
});

interface Route {
  method: string;
  path: string;
  /** a valid value */
  query?: string;
  body?: object;
  /** invalid values, one at a time */
  wrongQueries?: string[];
  wrongBodies?: unknown[];
}

const run = { command: "true" };
const wrongRuns: unknown[] = [
  ...[{}, { command: "" }, { command: 1 }, { command: null }, { command: "a\0b" }, { command: "x".repeat(2 << 20) }],
  ...[{ cwd: "" }, { cwd: 1 }, { cwd: "/nowhere" }, { cwd: "/etc/passwd" }, { cwd: "x".repeat(5000) }],
  ...[{ timeout_seconds: 0 }, { timeout_seconds: -1 }, { timeout_seconds: "1" }, { timeout_seconds: 1e9 }],
  ...[{ env: [] }, { env: { A: 1 } }, { env: { "": "x" } }, { env: { "A=B": "x" } }, { env: { A: "\0" } }],
  ...[{ projectReference: "" }, { projectReference: 1 }, { projectReference: "prj_unknown" }, { unknown: 1 }],
].map((wrong, index) => (index === 0 ? wrong : { ...run, ...wrong }));
const empty = { wrongBodies: [{ unknown: 1 }, [], 1] };
const file = { path: "new", content: "" };

const routes: Route[] = [
  {
    method: "POST",
    path: "/sandbox-sessions",
    body: {},
    wrongBodies: [
      ...[{ project_id: 1 }, { project_id: "" }, { project_id: "prj_unknown" }, { project_id: null }],
      ...[{ environment_id: "e" }, { environment_id: null }, { ttl_mode: "never" }, { ttl_mode: 1 }, { unknown: 1 }],
      ...[{ ttl_mode: "duration" }, { ttl_hours: 1 }, { ttl_mode: "always_on", ttl_hours: 1 }],
      ...[0, -1, 24.1, "1", null, 1e-9].map((hours) => ({ ttl_mode: "duration", ttl_hours: hours })),
    ],
  },
  {
    method: "GET",
    path: "/sandbox-sessions",
    query: "limit=1",
    wrongQueries: [
      ...["limit=0", "limit=101", "limit=x", "limit=1.5", "limit=", "limit=-1", "limit=1&limit=2", "limit=1e1"],
      ...["cursor=", "cursor=x", "cursor=sbx_unknown", "cursor=-sbx_unknown", "cursor=--sbx_x", "cursor=%00"],
      ...["project_id=", "project_id=prj_unknown", "status=running", "metadata=%7B%7D"],
    ],
  },
  { method: "GET", path: "/sandbox-sessions/:session" },
  { method: "POST", path: "/sandbox-sessions/:session/heartbeat", ...empty },
  { method: "DELETE", path: "/sandbox-sessions/:session", ...empty },
  { method: "POST", path: "/sandbox-sessions/:session/commands/run", body: run, wrongBodies: wrongRuns },
  ...both("POST", "/commands/stream", "/exec", { body: run, wrongBodies: wrongRuns }),
  ...both("POST", "/commands", "/exec/commands", { body: run, wrongBodies: wrongRuns }),
  ...both("GET", "/commands", "/exec/commands"),
  ...both("GET", "/commands/:command", "/exec/commands/:command"),
  ...both("GET", "/commands/:command/output", "/exec/commands/:command/output"),
  ...both("POST", "/commands/:command/cancel", "/exec/commands/:command/cancel", empty),
  ...both("GET", "/file", "/file", {
    query: "path=f",
    wrongQueries: ["", "path=", "path=%00", "path=missing", "path=/", "path=/root/x", "path=f&path=g", "file=f"],
  }),
  ...both("POST", "/files", "/files", {
    body: { files: [file] },
    wrongBodies: [
      ...[{}, { files: {} }, { files: [1] }, { files: [{ path: "x" }] }, { files: [{ content: "" }] }],
      ...[
        { ...file, path: "" },
        { ...file, path: 1 },
        { ...file, path: "a\0b" },
        { ...file, path: "/proc/x" },
      ],
      ...[
        { ...file, path: "/etc/passwd/x" },
        { ...file, path: "/" },
        { ...file, content: 1 },
        { ...file, mode: 1 },
      ],
    ].map((wrong) => ("path" in wrong ? { files: [wrong] } : wrong)),
  }),
];

/** below the session, and below its endpoint */
function both(method: string, api: string, endpoint: string, rest: Omit<Route, "method" | "path"> = {}): Route[] {
  return [
    { method, path: `/sandbox-sessions/:session${api}`, ...rest },
    { method, path: `/veryfront/:session${endpoint}`, ...rest },
  ];
}

const titled = routes.map((route) => ({ ...route, title: `${route.method} ${route.path}` }));

test("the table has every route of the daemon", () => {
  const limits = { timeout: 1, body: 1, patience: 1 };
  const app = veryfrontApi({
    ...{ core: fakeCore().core, limits, publicUrl: () => "", closing: () => false, logError: () => undefined },
  });
  const served = app.routes.filter(({ method }) => method !== "ALL").map(({ method, path }) => `${method} ${path}`);
  expect(titled.map(({ title }) => title).sort()).toEqual(served.sort());
});

/** everything of the first team, with its state now */
async function everything(): Promise<unknown> {
  const [sessions, one, commands, files] = await Promise.all([
    ask("GET", "/sandbox-sessions?limit=100"),
    ask("GET", `/sandbox-sessions/${session}`),
    ask("GET", `/sandbox-sessions/${session}/commands`),
    ask("GET", `/sandbox-sessions/${session}/file?path=f`),
  ]);
  return [sessions.json, one.json, commands.json, files.text];
}

function expectProblem(answer: RawAnswer, what: string, statuses: number[]): void {
  const shown = `${what}: ${answer.status} ${answer.text.slice(0, 300)}`;
  expect(statuses, shown).toContain(answer.status);
  expect(answer.headers.get("content-type"), shown).toMatch(/^application\/problem\+json/);
  expect(Object.keys(answer.json), shown).toEqual(["type", "title", "status", "detail"]);
  expect(answer.json.status, shown).toBe(answer.status);
  expect(answer.json.detail, shown).toMatch(/^\w.{5,}/);
}

describe("invalid input is refused and changes nothing", () => {
  test.each(titled)("$title", async ({ method, path, query = "", body, wrongQueries = [], wrongBodies = [] }) => {
    const before = await everything();
    const target = filled(path);
    for (const wrong of [...wrongQueries, `${query}&unknown=1`, `${query}&__private=1`]) {
      const sent = body === undefined ? {} : { body };
      expectProblem(await ask(method, `${target}?${wrong}`, sent), wrong, [400, 403, 404]);
    }
    const notJson = ["{", '"text"', "null", new Uint8Array([0x22, 0xff, 0x22])];
    for (const wrong of method === "GET" ? [] : [...wrongBodies, ...notJson]) {
      const answer = await ask(method, target, { body: wrong });
      expectProblem(answer, JSON.stringify(wrong)?.slice(0, 100), [400, 403, 404, 409, 413]);
    }
    expect(await everything()).toEqual(before);
  });
});

describe("things of another team are not found", () => {
  test.each(titled)("$title", async ({ method, path, query = "", body }) => {
    const before = await everything();
    const options = body === undefined ? {} : { body };
    const target = (ids: string) => `${ids}${query && `?${query}`}`;
    if (path.includes(":session")) {
      expectProblem(await ask(method, target(filled(path)), { ...options, key: foreignKey }), "foreign", [404]);
    }
    const own = (id: string) => path.replace(":session", session).replace(":command", id);
    const wrongIds = [
      ...["sbx_unknown", "x", "%00", "..%2f..", "a".repeat(300)].map((id) => path.replace(":session", id)),
      ...(path.includes(":command") ? ["cmd_unknown", "x", "%00", "a".repeat(300)].map(own) : []),
    ];
    for (const wrong of path.includes(":session") ? wrongIds : []) {
      expectProblem(await ask(method, target(wrong.replace(":command", command)), options), wrong, [404]);
    }
    for (const key of ["sk_nobody", "x".repeat(10_000)]) {
      expectProblem(await ask(method, target(filled(path)), { ...options, key }), "no such key", [401]);
    }
    expect(await everything()).toEqual(before);
  });

  test("another team's project and cursor", async () => {
    const cursor = await ask("GET", `/sandbox-sessions?cursor=${session}`, { key: foreignKey });
    expectProblem(cursor, "cursor", [400]);
    const projects = await Promise.all([
      ask("GET", "/sandbox-sessions?project_id=prj_default", { key: foreignKey }),
      ask("POST", "/sandbox-sessions", { key: foreignKey, body: { project_id: "prj_default" } }),
    ]);
    for (const answer of projects) expectProblem(answer, "project", [403]);
    expect((await ask("GET", "/sandbox-sessions", { key: foreignKey })).json.data).toEqual([]);
  });
});

test("the daemon has logged no error", () => {
  expect(daemon().complaints()).toBe("");
});
