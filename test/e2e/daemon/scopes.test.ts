/**
 * Keys with limits: to a project, to reading, to network policies no wider than a given one. Every route of every API
 * is tried with a read-only key and with a key of another project; nothing is changed, and nothing is revealed.
 */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Client } from "@modelcontextprotocol/client";
import type { Hono } from "hono";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { instavmApi } from "../../../src/api/instavm/instavm.ts";
import { sandkeepApi } from "../../../src/api/sandkeep/sandkeep.ts";
import { defaultLimits } from "../../../src/api/vercel/limits.ts";
import { vercelApi } from "../../../src/api/vercel/vercel.ts";
import { veryfrontApi } from "../../../src/api/veryfront/veryfront.ts";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually, root } from "../../harness/harness.ts";
import { type RawAnswer, raw } from "../clients.ts";
import { type Answer, call, connect, refusal, veryfrontPath } from "../mcp/mcp.ts";
import { endpoints, everythingOf, examples, routesOfTheDaemon, wire } from "../vercel/endpoints.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
/** a word that occurs only in the default project */
const secret = "word-of-the-default-project";
/** values for the names in paths: things of the default project */
const things: Record<string, string> = {
  name: "victim",
  drive: "victim",
  team: "team_default",
  project: "prj_default",
};
const keys: Record<string, string> = {};

beforeAll(async () => {
  const own = (method: string, path: string, body?: unknown) =>
    raw(daemon(), method, path, { ...(body !== undefined && { body }) });
  await own("POST", "/v11/projects", { name: "other" });
  const volume = await own("POST", "/v2/sandboxes/drives/victim", {});
  const { json } = await own("POST", "/v3/sandboxes", { name: "victim", ports: [3000], tags: { word: secret } });
  const session = `/v2/sandboxes/sessions/${json.session.id}`;
  const command = { command: "sh", args: ["-c", `echo ${secret} > file; echo ${secret}; exec sleep 600`] };
  const ran = await own("POST", `${session}/cmd`, command);
  things.snapshotId = (await own("POST", `/v1/vms/${json.session.id}/snapshot`, {})).json?.snapshot_id ?? "snap_none";
  Object.assign(things, { sessionId: json.session.id, session: json.session.id, sandbox: "victim" });
  Object.assign(things, { commandId: ran.json.command.id, command: ran.json.command.id, volume: volume.json.id });
  things.subdomain = json.sandbox.routes?.[0]?.subdomain ?? "sb-none";
  keys.readOnly = await keyWith({ readOnly: true });
  keys.other = await keyWith({ project: "other" });
  keys.npm = await keyWith({ policyCeiling: "registry.npmjs.org, *.github.com" });
});

/** the APIs by name, each with the daemon's routes, and the place of an error's sentence */
const wires: Record<string, { app: () => Hono<never>; sentence: (json: Words) => string | undefined }> = {
  vercel: {
    app: () => vercelApi({ core: {}, schemas: wire } as never, {} as never) as unknown as Hono<never>,
    sentence: ({ error }) => error?.message,
  },
  instavm: {
    app: () => instavmApi({ core: {}, schemas: {} } as never, {} as never) as unknown as Hono<never>,
    sentence: ({ detail }) => detail,
  },
  veryfront: {
    app: () => veryfrontApi({ core: {}, limits: {} } as never) as unknown as Hono<never>,
    sentence: ({ detail }) => detail,
  },
  sandkeep: {
    app: () => sandkeepApi({ core: {}, limits: defaultLimits } as never) as unknown as Hono<never>,
    sentence: ({ error }) => error?.message,
  },
};

interface Words {
  error?: { message?: string };
  detail?: string;
}

/** requests that read by another method than GET */
const reading = [
  "POST /:version{v[234]}/sandboxes/sessions/:sessionId/fs/read",
  "POST /v1/sandboxes/:sessionId/fs/read",
  "POST /download",
];

function routesOf(name: string): { method: string; path: string }[] {
  const all = wires[name]?.app().routes.filter(({ method }) => method !== "ALL") ?? [];
  return [...new Map(all.map(({ method, path }) => [`${method} ${path}`, { method, path }])).values()];
}

describe.each(Object.keys(wires))("every route of %s", (name) => {
  const routes = routesOf(name);
  const { sentence } = wires[name] ?? { sentence: () => undefined };

  test("is in the list of routes", () => {
    expect(routes.length).toBeGreaterThan(3);
    if (name === "vercel") expect(routesOfTheDaemon().length).toBeGreaterThan(endpoints.length - 1);
  });

  test("that changes something refuses a read-only key, before its body is read", async () => {
    const before = await everything();
    for (const { method, path } of routes.filter((route) => route.method !== "GET")) {
      const answer = await ask(keys.readOnly, method, path, "not even JSON");
      const title = `${method} ${path}: ${answer.text.slice(0, 200)}`;
      if (reading.includes(`${method} ${path}`)) {
        expect(answer.status, title).not.toBe(403);
        continue;
      }
      expect(answer.status, title).toBe(403);
      expect(sentence(answer.json), title).toMatch(/may only read/);
    }
    expect(await everything()).toEqual(before);
  });

  test("that only reads answers a read-only key like any other", async () => {
    for (const { path } of routes.filter(
      (route) => route.method === "GET" && !/egress$|logs$|pty|\/wait$/.test(route.path),
    )) {
      const [limited, full] = await Promise.all([ask(keys.readOnly, "GET", path), ask(daemon().key, "GET", path)]);
      const isAboutKeys = /\/(api-)?keys(\/:id)?$/.test(path);
      expect(limited.status, `${path}: ${limited.text.slice(0, 200)}`).toBe(isAboutKeys ? 403 : full.status);
    }
  });

  test("reveals nothing to a key of another project, and changes nothing", async () => {
    const before = await everything();
    for (const { method, path } of routes) {
      for (const body of method === "GET" ? [undefined] : [{}, ...bodiesFor(path)]) {
        const answer = await ask(keys.other, method, path, body);
        const title = `${method} ${path} ${JSON.stringify(body)}: ${answer.text.slice(0, 200)}`;
        expect(answer.text, title).not.toContain(secret);
        expect(answer.status, title).toBeLessThan(500);
        const names = path.includes(":id") || /:(sessionId|snapshotId|session|commandId)/.test(path);
        if (names) expect(answer.status, title).toBeGreaterThanOrEqual(400);
      }
    }
    expect(await everything()).toEqual(before);
  });
});

/** bodies that pass the schema of a route of Vercel's */
function bodiesFor(path: string): object[] {
  const spelled = path.replace(/:version\{v\[234\]\}/, "v2");
  const body = endpoints.find((endpoint) => endpoint.path === spelled && endpoint.body)?.body;
  const makesThings = ["createBody", "v1CreateBody", "driveBody", "projectBody"];
  return body && !makesThings.includes(body) ? examples[body] : [];
}

describe("a key for a project", () => {
  test("is refused with 403 for things of another project, which the answer names", async () => {
    const with403 = [
      ["GET", `/v2/sandboxes/sessions/${things.sessionId}`],
      ["POST", `/v2/sandboxes/sessions/${things.sessionId}/stop`],
      ["GET", `/v2/sandboxes/sessions/${things.sessionId}/cmd/${things.commandId}/logs`],
      ["GET", "/v2/sandboxes?project=prj_default"],
      ["GET", "/v2/sandboxes/victim?projectId=default"],
      ["GET", "/v9/projects/default"],
      ["POST", "/v11/projects"],
      ["GET", `/v1/vms/${things.sessionId}`],
      ["GET", `/sandbox-sessions/${things.sessionId}`],
      ["POST", `/sandbox-sessions/${things.sessionId}/heartbeat`],
      ["GET", `/sandkeep/v1/sessions/${things.sessionId}/egress`],
      ["GET", "/sandkeep/v1/keys"],
      ["GET", "/v1/api-keys"],
    ];
    for (const [method = "", path = ""] of with403) {
      const body = method === "POST" ? (path.endsWith("projects") ? { name: "new" } : {}) : undefined;
      const answer = await ask(keys.other, method, path, body);
      expect(answer.status, `${method} ${path}: ${answer.text}`).toBe(403);
    }
  });

  test("works in its own project, also if a request names none", async () => {
    const made = await raw(daemon(), "POST", "/v3/sandboxes", { key: keys.other ?? "", body: { name: "theirs" } });
    expect(made.status).toBe(200);
    const seen = await raw(daemon(), "GET", "/v2/sandboxes?project=other");
    expect(seen.json.sandboxes.map(({ name }: { name: string }) => name)).toContain("theirs");
    const listed = await raw(daemon(), "GET", "/v2/sandboxes", { key: keys.other ?? "" });
    expect(listed.json.sandboxes).toEqual(seen.json.sandboxes);
    expect((await raw(daemon(), "DELETE", "/v2/sandboxes/theirs", { key: keys.other ?? "" })).status).toBe(200);
  });
});

describe("a key with a ceiling", () => {
  const create = (body: object) => raw(daemon(), "POST", "/v3/sandboxes", { key: keys.npm ?? "", body });

  test("creates sandboxes no wider than it, and without a policy just as wide", async () => {
    const plain = await create({ name: "plain" });
    expect(plain.json.sandbox.networkPolicy).toMatchObject({ allowedDomains: ["registry.npmjs.org", "*.github.com"] });
    expect((await create({ networkPolicy: { allow: ["api.github.com"] } })).status).toBe(200);
    for (const networkPolicy of [
      { mode: "allow-all" },
      { allow: ["example.com"] },
      { allow: ["registry.npmjs.org"], subnets: { allow: ["169.254.169.254/32"] } },
      { allow: { "registry.npmjs.org": [{ forwardURL: "https://example.com" }] } },
    ]) {
      const refused = await create({ networkPolicy });
      expect([refused.status, refused.json.error.message]).toEqual([403, expect.stringMatching(/wider than this key/)]);
    }
    const id = plain.json.session.id;
    const widen = (path: string, body: object) => raw(daemon(), "POST", path, { key: keys.npm ?? "", body });
    expect((await widen(`/v2/sandboxes/sessions/${id}/network-policy`, { mode: "allow-all" })).status).toBe(403);
    expect((await widen(`/v2/sandboxes/sessions/${id}/network-policy`, { mode: "deny-all" })).status).toBe(200);
    expect((await widen(`/v1/egress/vm/${id}`, { allow_http: true, allow_https: true })).status).toBe(403);
    const patch = { networkPolicy: { mode: "allow-all" } };
    expect((await raw(daemon(), "PATCH", "/v2/sandboxes/plain", { key: keys.npm ?? "", body: patch })).status).toBe(
      403,
    );
    expect((await widen("/v2/sandboxes/plain/fork", patch)).status).toBe(403);
    expect((await widen("/v2/sandboxes/victim/fork", { name: "copy" })).status).toBe(403);
  });

  test("does not work in a sandbox that reaches more", async () => {
    const run = { command: "true" };
    const path = `/v2/sandboxes/sessions/${things.sessionId}`;
    const wide = await raw(daemon(), "POST", `${path}/cmd`, { key: keys.npm ?? "", body: run });
    expect([wide.status, wide.json.error.message]).toEqual([403, expect.stringMatching(/"victim" is wider than this/)]);
    expect((await raw(daemon(), "GET", path, { key: keys.npm ?? "" })).status).toBe(200);
    const file = { path: "file" };
    expect((await raw(daemon(), "POST", `${path}/fs/read`, { key: keys.npm ?? "", body: file })).status).toBe(403);
    expect((await raw(daemon(), "POST", `${path}/fs/read`, { body: file })).text).toContain(secret);
  });
});

test("metrics of the whole host are for keys without limits, and for keys that are only read-only", async () => {
  keys.readsProject = await keyWith({ readOnly: true, project: "other" });
  keys.readsNpm = await keyWith({ readOnly: true, policyCeiling: "registry.npmjs.org" });
  for (const key of [daemon().key, keys.readOnly ?? ""]) {
    expect((await raw(daemon(), "GET", "/metrics", { key })).status).toBe(200);
  }
  for (const name of ["other", "npm", "readsProject", "readsNpm"]) {
    const answer = await raw(daemon(), "GET", "/metrics", { key: keys[name] ?? "" });
    expect([name, answer.status]).toEqual([name, 403]);
    expect(answer.text).not.toContain("sandkeep_");
  }
});

describe("over MCP", () => {
  const sandbox = "locked";
  let client: Client;
  beforeAll(async () => {
    client = await connect(daemon(), "2026-07-28", undo);
    const networkPolicy = {
      allow: { "a.test": [{ transform: [{ headers: { authorization: "sealed" } }] }], "b.test": [] },
      subnets: { allow: ["93.184.216.0/24"] },
    };
    await raw(daemon(), "POST", "/v3/sandboxes", { body: { name: sandbox, networkPolicy } });
  });

  test("a model narrows the policy of a sandbox and cannot widen it, in any way", async () => {
    const set = (network_policy: object) => ({ sandbox, network_policy });
    const wider = [
      { mode: "allow-all" },
      { mode: "custom", allowed_cidrs: ["169.254.169.254/32"] },
      { mode: "custom", allowed_domains: ["c.test"], allowed_cidrs: ["93.184.216.0/24"] },
      { mode: "custom", allowed_domains: ["a.test", "b.test"], allowed_cidrs: ["93.184.0.0/16"] },
    ];
    const before = await raw(daemon(), "GET", `/v2/sandboxes/${sandbox}`);
    for (const policy of wider) {
      expect(await refusal(client, "set_network_policy", set(policy))).toMatch(/may only be made narrower here/);
      expect(await refusal(client, "fork_sandbox", set(policy))).toMatch(/may only be made narrower here/);
    }
    const { snapshot_id } = await call(client, "snapshot_sandbox", { sandbox });
    const start = { snapshot_id, network_policy: { mode: "allow-all" } };
    expect(await refusal(client, "create_sandbox", start)).toMatch(/may only be made narrower here/);
    // For a new sandbox a model may name any policy; what the operator has not opened stays closed.
    const metadata = { network_policy: { mode: "custom", allowed_cidrs: ["169.254.169.254/32"] } };
    const { sandbox: closed } = await call(client, "create_sandbox", metadata);
    const asked = { sandbox: closed, command: "curl -sS http://169.254.169.254/" };
    expect((await call(client, "run_command", asked)).stdout).toContain('"code": "egress_');
    await call(client, "delete_sandbox", { sandbox: closed });
    const same = await call(client, "create_sandbox", { snapshot_id });
    expect(same.network_policy).toMatchObject({ mode: "custom", allowed_domains: ["a.test", "b.test"] });
    await call(client, "delete_sandbox", { sandbox: same.sandbox });
    const after = await raw(daemon(), "GET", `/v2/sandboxes/${sandbox}`);
    expect(after.json.session.networkPolicy).toEqual(before.json.session.networkPolicy);

    const narrower = { mode: "custom", allowed_domains: ["a.test"], allowed_cidrs: [], denied_cidrs: [] };
    expect((await call(client, "set_network_policy", set(narrower))).network_policy).toEqual(narrower);
    // Domains that are kept keep their rules.
    const { json } = await raw(daemon(), "GET", `/v2/sandboxes/${sandbox}`);
    expect(JSON.stringify(json.sandbox.networkPolicy)).toContain("authorization");
    expect((await call(client, "set_network_policy", set({ mode: "deny-all" }))).network_policy.mode).toBe("deny-all");
  });

  test("a model may open a sandbox up to the ceiling of the connection", async () => {
    const set = (network_policy: object) => ({ sandbox, network_policy });
    const { status, json } = await mcp("set_network_policy", set({ mode: "custom", allowed_domains: ["a.test"] }), {
      "sandkeep-policy-ceiling": "a.test, b.test",
    });
    expect([status, json.result.isError ?? false]).toEqual([200, false]);
    const beyond = await mcp("set_network_policy", set({ mode: "allow-all" }), { "sandkeep-policy-ceiling": "a.test" });
    expect(beyond.json.result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/wider than/) }],
    });
    expect((await mcp("list_sandboxes", {}, { "sandkeep-policy-ceiling": "not a policy" })).status).toBe(400);
    await call(client, "set_network_policy", set({ mode: "deny-all" }));
  });

  test("a read-only key calls the tools that read, and no other", async () => {
    const limited = await connect({ url: daemon().url, key: keys.readOnly ?? "" }, "2026-07-28", undo);
    const vendor = await connect({ url: daemon().url, key: keys.readOnly ?? "" }, "2026-07-28", undo, veryfrontPath);
    const before = await everything();
    const args: Record<string, unknown> = {
      ...{ sandbox: "victim", seconds: 1, command: "true", command_id: things.commandId, data: "x", path: "new" },
      ...{ content: "x", glob: "*", port: 4000, network_policy: { mode: "deny-all" }, id: things.sessionId },
    };
    for (const agent of [limited, vendor]) {
      for (const { name, inputSchema, annotations } of (await agent.listTools()).tools) {
        const needed = [...(inputSchema.required ?? []), ...(name === "search_files" ? ["glob"] : [])];
        const given = Object.fromEntries(needed.map((key) => [key, args[key]]));
        if (annotations?.readOnlyHint) {
          if (name !== "read_file") await call(agent, name, given);
        } else expect(await refusal(agent, name, given), name).toMatch(/may only read/);
      }
    }
    expect(await everything()).toEqual(before);
  });

  test("a session of one key is unknown to another key of the same team", async () => {
    const legacy = await mcpRaw(handshake, { authorization: `Bearer ${daemon().key}` });
    const session = { "mcp-session-id": legacy.headers.get("mcp-session-id") ?? "" };
    const ping = { jsonrpc: "2.0", id: 2, method: "ping" };
    expect((await mcpRaw(ping, { ...session, authorization: `Bearer ${daemon().key}` })).status).toBe(200);
    expect((await mcpRaw(ping, { ...session, authorization: `Bearer ${keys.readOnly}` })).status).toBe(404);
  });
});

describe("sandkeep key", () => {
  test("makes a key with limits, lists it with its last use, and deletes it", async () => {
    const made = await cli("create", "agent", "--read-only", "--project", "other", "--expires", "12h", "--json");
    const { secret: value, ...key } = JSON.parse(made.stdout);
    expect(key).toMatchObject({
      name: "agent",
      readOnly: true,
      projectId: expect.stringMatching(/^prj_/),
      lastUsedAt: null,
    });
    expect(key.expiresAt - Date.now()).toBeGreaterThan(11 * 3_600_000);
    expect((await raw(daemon(), "GET", "/v2/sandboxes", { key: value })).status).toBe(200);
    const shown = (await cli("ls")).stdout;
    expect(shown).toContain(key.id);
    expect(shown).toMatch(/project prj_\w+; read-only/);
    expect(shown).not.toContain(value);
    const [used] = JSON.parse((await cli("ls", "--json")).stdout).filter(({ id }: { id: string }) => id === key.id);
    expect(Date.now() - used.lastUsedAt).toBeLessThan(60_000);
    await cli("rm", key.id);
    expect((await raw(daemon(), "GET", "/v2/sandboxes", { key: value })).status).toBe(401);
    await expect(cli("rm", key.id)).rejects.toThrow(/there is no such key/);
    const plain = await cli("create", "plain", "--policy-ceiling", "a.test");
    expect(plain.stdout).toMatch(/^sk_\w{40}\n$/);
    expect(plain.stderr).toMatch(/policy a\.test\); its secret is not shown again/);
  });

  test("a key is refused once it has expired, and a limited key cannot make another", async () => {
    let life = 1500;
    const secret = await eventually("a key is used before it expires, on a busy host too", async () => {
      life *= 2;
      const key = await keyWith({ expiresAt: Date.now() + life });
      return (await raw(daemon(), "GET", "/v2/user", { key })).status === 200 && key;
    });
    await expect.poll(async () => (await raw(daemon(), "GET", "/v2/user", { key: secret })).status).toBe(401);
    for (const key of [keys.readOnly, keys.other, keys.npm]) {
      const answer = await raw(daemon(), "POST", "/sandkeep/v1/keys", { key: key ?? "", body: { name: "wider" } });
      expect(answer.status).toBe(403);
    }
    const bad = [{}, { name: "x", expiresAt: 1 }, { name: "x", policyCeiling: "!" }, { name: "x", more: 1 }];
    for (const body of bad) expect((await raw(daemon(), "POST", "/sandkeep/v1/keys", { body })).status).toBe(400);
    const nowhere = await raw(daemon(), "POST", "/sandkeep/v1/keys", { body: { name: "x", project: "nowhere" } });
    expect(nowhere.status).toBe(404);
  });
});

async function keyWith(limits: object): Promise<string> {
  const { status, json } = await raw(daemon(), "POST", "/sandkeep/v1/keys", { body: { name: "limited", ...limits } });
  expect(status).toBe(201);
  return json.secret;
}

/** a request to a route, with things of the default project in its path, and a key */
function ask(key: string | undefined, method: string, path: string, body?: unknown): Promise<RawAnswer> {
  const filled = path
    .replace(/:version\{v\[234\]\}/, "v2")
    .replace(/:version\{v\(2\|9\)\}/, "v9")
    .replace(/:version\{[^}]+\}/, "v11")
    .replace(/\{[^}]*\}/g, "")
    .replace(/:id/g, idIn(path))
    .replace(/:(\w+)/g, (_, name: string) => things[name] ?? "none");
  return raw(daemon(), method, filled, { key: key ?? "", ...(body !== undefined && { body }) });
}

/** the name of an id in InstaVM's paths, by the noun before it */
function idIn(path: string): string {
  const noun = /\/(\w[\w-]*)\/:id/.exec(path)?.[1] ?? "";
  const ids: Record<string, string | undefined> = {
    ...{ volumes: things.volume, snapshots: things.snapshotId, executions: things.commandId, shares: things.subdomain },
    ...{ session: "victim", status: "victim", usage: "victim", "api-keys": "key_none" },
  };
  return ids[noun] ?? things.sessionId ?? "";
}

const handshake = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "raw", version: "1" } },
};

function mcpRaw(body: object, headers: Record<string, string>): Promise<Response> {
  const accept = "application/json, text/event-stream";
  return fetch(`${daemon().url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json", accept, ...headers },
    body: JSON.stringify(body),
  });
}

/** a call of a tool in the newer protocol, with headers of the connection */
async function mcp(
  name: string,
  args: object,
  headers: Record<string, string>,
): Promise<{ status: number; json: Answer }> {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args, _meta } };
  const answer = await mcpRaw(body, {
    ...{ authorization: `Bearer ${daemon().key}`, "mcp-protocol-version": "2026-07-28" },
    ...{ "mcp-method": "tools/call", "mcp-name": name, ...headers },
  });
  return { status: answer.status, json: await answer.json() };
}

function cli(...args: string[]) {
  const env = { PATH: process.env.PATH, SANDKEEP_URL: daemon().url, SANDKEEP_API_KEY: daemon().key };
  return promisify(execFile)(process.execPath, [join(root, "src/main.ts"), "key", ...args], { env });
}

/** everything in the default project, with its state */
function everything(): Promise<unknown> {
  return everythingOf(daemon(), things.sessionId, [
    `/v2/sandboxes/sessions/${things.sessionId}/cmd/${things.commandId}`,
    "/v2/sandboxes/victim",
    "/v1/volumes",
  ]);
}
