/**
 * Every endpoint of the vendor's API that needs a key: its schemas, and examples that name each member at least once.
 * Tests that must hold for all endpoints loop over this table; another test checks that it is complete.
 */

import { defaultLimits } from "../../../src/api/vercel/limits.ts";
import { type Schemas, schemas } from "../../../src/api/vercel/schemas.ts";
import { vercelApi } from "../../../src/api/vercel/vercel.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { raw } from "../clients.ts";

export const wire = schemas(defaultLimits);

export interface Endpoint {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  /** with the vendor's names of the parameters: `:sessionId` */
  path: string;
  /** without it, the query is ignored */
  query?: keyof Schemas;
  body?: keyof Schemas;
}

const session = "/v2/sandboxes/sessions/:sessionId";
/** what version 1 calls a sandbox */
const v1Sandbox = "/v1/sandboxes/:sessionId";

export const endpoints: Endpoint[] = [
  { method: "GET", path: "/v2/sandboxes/sessions", query: "historyQuery" },
  { method: "GET", path: session, query: "scopeQuery" },
  { method: "POST", path: `${session}/stop`, query: "scopeQuery", body: "emptyBody" },
  { method: "POST", path: `${session}/extend-timeout`, query: "scopeQuery", body: "extendBody" },
  { method: "POST", path: `${session}/network-policy`, query: "scopeQuery", body: "networkPolicyBody" },
  { method: "POST", path: `${session}/snapshot`, query: "scopeQuery", body: "snapshotBody" },
  { method: "POST", path: `${session}/cmd`, query: "runQuery", body: "runBody" },
  { method: "GET", path: `${session}/cmd`, query: "scopeQuery" },
  { method: "GET", path: `${session}/cmd/:commandId`, query: "commandQuery" },
  { method: "GET", path: `${session}/cmd/:commandId/logs`, query: "scopeQuery" },
  { method: "POST", path: `${session}/cmd/:commandId/kill`, query: "scopeQuery", body: "killBody" },
  { method: "POST", path: `${session}/cmd/:commandId/stdin`, query: "scopeQuery", body: "stdinBody" },
  { method: "POST", path: `${session}/fs/read`, query: "scopeQuery", body: "readBody" },
  { method: "POST", path: `${session}/fs/write`, query: "scopeQuery" },
  { method: "POST", path: `${session}/fs/mkdir`, query: "scopeQuery", body: "mkdirBody" },
  { method: "POST", path: `${session}/interactive`, query: "scopeQuery", body: "emptyBody" },
  { method: "GET", path: "/v2/sandboxes/snapshots", query: "historyQuery" },
  { method: "GET", path: "/v2/sandboxes/snapshots/tree", query: "treeQuery" },
  { method: "GET", path: "/v2/sandboxes/snapshots/:snapshotId", query: "scopeQuery" },
  { method: "DELETE", path: "/v2/sandboxes/snapshots/:snapshotId", query: "scopeQuery" },
  { method: "POST", path: "/v2/sandboxes/drives/:drive", query: "scopeQuery", body: "driveBody" },
  { method: "GET", path: "/v2/sandboxes/drives", query: "drivesQuery" },
  { method: "GET", path: "/v2/sandboxes/drives/:drive", query: "sandboxQuery" },
  { method: "POST", path: "/v2/sandboxes/drives/:drive/fork", query: "sandboxQuery", body: "driveForkBody" },
  { method: "DELETE", path: "/v2/sandboxes/drives/:drive", query: "sandboxQuery" },
  { method: "POST", path: "/v2/sandboxes", query: "scopeQuery", body: "createBody" },
  { method: "GET", path: "/v2/sandboxes", query: "sandboxesQuery" },
  { method: "GET", path: "/v2/sandboxes/:name", query: "getQuery" },
  { method: "PATCH", path: "/v2/sandboxes/:name", query: "getQuery", body: "updateBody" },
  { method: "DELETE", path: "/v2/sandboxes/:name", query: "deleteQuery" },
  { method: "POST", path: "/v2/sandboxes/:name/fork", query: "sandboxQuery", body: "forkBody" },
  { method: "POST", path: "/v1/sandboxes", query: "scopeQuery", body: "v1CreateBody" },
  { method: "GET", path: "/v1/sandboxes", query: "v1ListQuery" },
  { method: "GET", path: v1Sandbox, query: "scopeQuery" },
  { method: "POST", path: `${v1Sandbox}/stop`, query: "scopeQuery", body: "emptyBody" },
  { method: "POST", path: `${v1Sandbox}/extend-timeout`, query: "scopeQuery", body: "extendBody" },
  { method: "POST", path: `${v1Sandbox}/network-policy`, query: "scopeQuery", body: "networkPolicyBody" },
  { method: "POST", path: `${v1Sandbox}/snapshot`, query: "scopeQuery", body: "snapshotBody" },
  { method: "GET", path: "/v1/sandboxes/snapshots", query: "v1ListQuery" },
  { method: "GET", path: "/v1/sandboxes/snapshots/:snapshotId", query: "scopeQuery" },
  { method: "DELETE", path: "/v1/sandboxes/snapshots/:snapshotId", query: "scopeQuery" },
  { method: "POST", path: `${v1Sandbox}/cmd`, query: "runQuery", body: "v1RunBody" },
  { method: "GET", path: `${v1Sandbox}/cmd`, query: "scopeQuery" },
  { method: "GET", path: `${v1Sandbox}/cmd/:commandId`, query: "commandQuery" },
  { method: "GET", path: `${v1Sandbox}/cmd/:commandId/logs`, query: "scopeQuery" },
  { method: "POST", path: `${v1Sandbox}/:commandId/kill`, query: "scopeQuery", body: "killBody" },
  { method: "POST", path: `${v1Sandbox}/fs/read`, query: "scopeQuery", body: "readBody" },
  { method: "POST", path: `${v1Sandbox}/fs/write`, query: "scopeQuery" },
  { method: "POST", path: `${v1Sandbox}/fs/mkdir`, query: "scopeQuery", body: "mkdirBody" },
  { method: "GET", path: "/v2/user" },
  { method: "GET", path: "/v2/teams", query: "teamsQuery" },
  { method: "GET", path: "/v2/teams/:team" },
  { method: "GET", path: "/v2/projects/:project", query: "scopeQuery" },
  { method: "POST", path: "/v11/projects", query: "scopeQuery", body: "projectBody" },
];

/** "METHOD /path" of each route as the daemon has it, in the table's spelling */
export function routesOfTheDaemon(): string[] {
  // The routes are only listed, never called.
  const app = vercelApi({ core: {}, schemas: wire, limits: defaultLimits } as never, {} as never);
  return app.routes
    .filter(({ method }) => method !== "ALL")
    .map(({ method, path }) => `${method} ${path}`)
    .map((line) => line.replace(/:version\{v\[234\]\}|:version\{v\(2\|9\)\}/, "v2").replace(/:version\{[^}]+\}/, "v11"))
    .map((line) => line.replace("/drives/:name", "/drives/:drive"));
}

const scope = { teamId: "team_default" };
const policies = [
  { mode: "deny-all" },
  { allow: ["example.com"], subnets: { allow: ["10.0.0.0/8"], deny: ["10.1.0.0/16"] } },
  {
    allow: {
      "example.com": [
        {
          transform: [{ headers: { name: "value" } }],
          match: {
            path: { exact: "/a" },
            method: ["GET"],
            queryString: [{ key: { startsWith: "a" }, value: { regex: "b" } }],
            headers: [{ key: { exact: "a" }, value: { exact: "b" } }],
          },
        },
        { forwardURL: "https://example.com" },
        { response: { statusCode: 200, headers: { a: "b" }, body: "text", contentType: "text/plain" } },
      ],
    },
  },
  {
    mode: "custom",
    allowedDomains: ["example.com"],
    allowedCIDRs: ["10.0.0.0/8"],
    deniedCIDRs: ["10.1.0.0/16"],
    injectionRules: [{ domain: "example.com", headers: { a: "b" }, match: { method: ["GET"] } }],
    forwardRules: [{ domain: "example.com", forwardURL: "https://example.com", match: { path: { exact: "/" } } }],
  },
];
const settings = {
  name: "example",
  persistent: false,
  resources: { vcpus: 2, memory: 4096 },
  timeout: 60_000,
  networkPolicy: { mode: "deny-all" },
  networkId: "net_1",
  ports: [3000],
  env: { A: "1" },
  tags: { a: "b" },
  snapshotExpiration: 0,
  keepLastSnapshots: { count: 1, expiration: 86_400_000, deleteEvicted: true },
  region: "iad1",
  failoverRegions: ["sfo1"],
  mounts: { "/data": { drive: "drive", mode: "snapshot" } },
};
const { name: _, ...updates } = settings;

/** valid by the schema, and together naming every member of it */
export const examples: Record<keyof Schemas, object[]> = {
  createBody: [
    { ...settings, projectId: "default", runtime: "node24" },
    {
      image: "universal",
      source: { type: "git", url: "http://127.0.0.1:9/y", depth: 1, revision: "main", username: "u", password: "p" },
    },
    { source: { type: "tarball", url: "http://127.0.0.1:9/y.tgz" } },
    { source: { type: "snapshot", snapshotId: "snap_1" } },
  ],
  forkBody: [{ ...settings, image: "universal" }],
  updateBody: [{ ...updates, currentSnapshotId: "snap_1", runtime: "node24" }],
  snapshotBody: [{ expiration: 0 }],
  extendBody: [{ duration: 1000 }],
  networkPolicyBody: policies,
  emptyBody: [{}],
  runBody: [
    { command: "true", args: ["a"], cwd: "/tmp", env: { A: "1" }, sudo: false, wait: true, logs: true, timeout: 1000 },
    { command: "true", attachStdin: true },
  ],
  stdinBody: [{ data: "aGkK", offset: 0, close: true }],
  driveForkBody: [{ name: "fork" }],
  v1CreateBody: [
    {
      projectId: "default",
      ports: [3000],
      timeout: 60_000,
      resources: { vcpus: 2 },
      runtime: "node24",
      networkPolicy: { mode: "default-deny", allowedDomains: ["example.com"] },
      env: { A: "1" },
    },
    { source: { type: "snapshot", snapshotId: "snap_1" } },
  ],
  v1RunBody: [{ command: "true", args: ["a"], cwd: "/tmp", env: { A: "1" }, sudo: false, wait: true }],
  v1ListQuery: [
    { ...scope, slug: "default", project: "default", limit: "10", since: "1", until: "1803711655015.0005" },
  ],
  killBody: [{ signal: 15, group: false }],
  mkdirBody: [{ path: "a", cwd: "/tmp", recursive: true }],
  readBody: [{ path: "a", cwd: "/tmp" }],
  driveBody: [{ projectId: "default", maxSizeBytes: 2 ** 30, region: "iad1" }],
  projectBody: [{ name: "project" }],
  scopeQuery: [scope, { slug: "default" }],
  sandboxQuery: [{ ...scope, slug: "default", projectId: "default" }],
  getQuery: [{ ...scope, slug: "default", projectId: "default", resume: "false" }],
  deleteQuery: [{ ...scope, slug: "default", projectId: "default", deleteOrphanSnapshots: "false" }],
  sandboxesQuery: [
    {
      ...scope,
      slug: "default",
      project: "default",
      limit: "10",
      cursor: "x",
      sortOrder: "asc",
      sortBy: "name",
      namePrefix: "a",
      tags: "a:b",
    },
    { sortBy: "createdAt", status: "running" },
  ],
  historyQuery: [
    { ...scope, slug: "default", project: "default", limit: "10", cursor: "x", sortOrder: "asc", name: "a" },
  ],
  treeQuery: [{ ...scope, slug: "default", project: "default", snapshotId: "snap_1", limit: "5", sortOrder: "asc" }],
  drivesQuery: [
    {
      ...scope,
      slug: "default",
      projectId: "default",
      limit: "10",
      cursor: "x",
      sortOrder: "asc",
      sortBy: "name",
      namePrefix: "a",
    },
  ],
  commandQuery: [{ ...scope, slug: "default", wait: "true" }],
  runQuery: [{ ...scope, slug: "default", wait: "true", logs: "true" }],
  teamsQuery: [{ ...scope, slug: "default", limit: "20", until: "1" }],
  drivePath: [{ name: "drive" }],
};

/** everything of the first team, with its state: its lists, the commands of a session, and other named things */
export function everythingOf(
  daemon: TestDaemon,
  sessionId: string | undefined,
  more: string[] = [],
): Promise<unknown[]> {
  const paths = [
    "/v2/sandboxes?limit=50",
    "/v2/sandboxes/sessions?limit=50",
    "/v2/sandboxes/snapshots?limit=50",
    "/v2/sandboxes/drives?limit=50",
    `/v2/sandboxes/sessions/${sessionId}/cmd`,
    "/v2/teams",
    ...more,
  ];
  return Promise.all(paths.map(async (path) => (await raw(daemon, "GET", path)).json));
}
