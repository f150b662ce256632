/** Access to MCP: keys, origins, refusals, sessions of the older protocol, and the separation of teams. */

import { request } from "node:http";
import { text } from "node:stream/consumers";
import type { Client } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { type Answer, call, connect, eras, refusal, secondTeam, veryfrontPath } from "./mcp.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());

const handshake = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "raw", version: "1" } },
};
const ping = { jsonrpc: "2.0", id: 2, method: "ping" };

describe("at the entrance", () => {
  test("a request without a key is refused, and the answer says where to get one", async () => {
    for (const authorization of [undefined, "Bearer wrong", "Basic abc", `Bearer ${"x".repeat(9000)}`]) {
      const answer = await ask("POST", { body: handshake, headers: { authorization } });
      expect(answer.status).toBe(401);
      const url = `${daemon().url}/.well-known/oauth-protected-resource/mcp`;
      expect(answer.headers["www-authenticate"]).toMatch(/^Bearer error="invalid_token"/);
      expect(answer.headers["www-authenticate"]).toContain(`resource_metadata="${url}"`);
    }
    const document = await fetch(`${daemon().url}/.well-known/oauth-protected-resource/mcp`);
    const own = daemon().url;
    expect(await document.json()).toMatchObject({ resource: `${own}/mcp`, authorization_servers: [own] });
    const vendors = await fetch(`${own}/.well-known/oauth-protected-resource/mcp/veryfront`);
    expect(await vendors.json()).toMatchObject({ resource: `${own}/mcp/veryfront` });
    const server = await fetch(`${own}/.well-known/openid-configuration`);
    expect(await server.json()).toMatchObject({ issuer: own, token_endpoint: expect.stringContaining(own) });
    expect((await fetch(`${own}/.well-known/oauth-protected-resource`, { method: "POST" })).status).toBe(405);
  });

  test.each([
    { host: "evil.example" },
    { host: "localhost.evil.example:7700" },
    { host: "sb-abc.example" },
    { origin: "https://evil.example" },
    { origin: "http://sb-abc.localhost:7700" },
    { origin: "http://203.0.113.7" },
    { origin: "null" },
  ])("a browser that was tricked is refused: %j", async (headers) => {
    expect((await ask("POST", { body: handshake, headers })).status).toBe(403);
  });

  test.each([
    { host: "localhost" },
    { host: "[::1]:7700" },
    { host: "192.0.2.1:7700" },
    { origin: "http://localhost:3000" },
  ])("a request from this host is accepted: %j", async (headers) => {
    expect((await ask("POST", { body: handshake, headers })).status).toBe(200);
  });

  test("a malformed request is refused and changes nothing", async () => {
    expect((await ask("POST", { body: "not json" })).status).toBe(400);
    expect((await ask("POST", { body: JSON.stringify({ jsonrpc: "2.0" }) })).status).toBe(400);
    expect((await ask("POST", { body: ping })).status).toBe(400);
    expect((await ask("POST", { body: handshake, headers: { "content-type": "text/plain" } })).status).toBe(415);
    expect((await ask("POST", { body: handshake, headers: { accept: "text/html" } })).status).toBe(406);
    expect((await ask("POST", { body: JSON.stringify({ ...ping, x: "x".repeat(5 << 20) }) })).status).toBe(413);
    const many = await ask("POST", { body: JSON.stringify({ ...ping, x: Array.from({ length: 20_001 }, () => 1) }) });
    expect([many.status, many.json.error.message]).toEqual([400, expect.stringContaining("more than 20000 values")]);
    for (const method of ["GET", "DELETE", "PUT", "PATCH"]) expect((await ask(method)).status).toBe(405);
    expect((await ask("GET", { path: "/mcp/more" })).status).toBe(404);
  });

  test("the newer protocol reports what a request lacks", async () => {
    const modern = (body: object, headers: Record<string, string> = {}) =>
      ask("POST", { body, headers: { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list", ...headers } });
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const list = { jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta } };
    expect((await modern(list)).status).toBe(200);
    expect(await modern(list, { "mcp-method": "tools/call" })).toMatchObject({
      status: 400,
      json: { error: { code: -32020 } },
    });
    const unknown = { ...list, method: "no/such" };
    expect(await modern(unknown, { "mcp-method": "no/such" })).toMatchObject({
      status: 404,
      json: { error: { code: -32601 } },
    });
    const other = { ..._meta, "io.modelcontextprotocol/protocolVersion": "2099-01-01" };
    const future = await modern({ ...list, params: { _meta: other } }, { "mcp-protocol-version": "2099-01-01" });
    expect(future).toMatchObject({
      status: 400,
      json: { error: { code: -32022, data: { supported: ["2026-07-28"] } } },
    });
  });
});

describe("a session of the older protocol", () => {
  test("is found again by its id, has a stream of its own, and ends", async () => {
    const id = await begin();
    expect((await ask("POST", { body: ping, session: id })).status).toBe(200);
    const stream = await fetch(`${daemon().url}/mcp`, {
      headers: { authorization: `Bearer ${daemon().key}`, accept: "text/event-stream", "mcp-session-id": id },
    });
    expect(stream.headers.get("content-type")).toBe("text/event-stream");
    await stream.body?.cancel();
    expect((await ask("DELETE", { session: id })).status).toBe(200);
    expect((await ask("POST", { body: ping, session: id })).status).toBe(404);
    expect((await ask("POST", { body: ping, session: "made-up" })).status).toBe(404);
  });

  test("is closed to other keys", async () => {
    const { key } = await others;
    const id = await begin();
    const authorization = `Bearer ${key}`;
    for (const method of ["POST", "GET", "DELETE"]) {
      const body = method === "POST" ? { body: ping } : {};
      expect((await ask(method, { ...body, session: id, headers: { authorization } })).status).toBe(404);
    }
    expect((await ask("POST", { body: ping, session: id })).status).toBe(200);
  });
});

describe.each(eras)("another team in %s", (era) => {
  const sandbox = `victim-${era}`;
  const secret = `secret-of-${era}`;
  let [own, foreign, foreignVendor]: Client[] = [];
  let things: Record<string, string>;
  beforeAll(async () => {
    own = await connect(daemon(), era, undo);
    const other = { url: daemon().url, key: (await others).key };
    foreign = await connect(other, era, undo);
    foreignVendor = await connect(other, era, undo, veryfrontPath);
    const made = await call(own, "create_sandbox", { name: sandbox, env: { SECRET: secret }, ports: [3000] });
    const run = await call(own, "run_command", { sandbox, command: "echo $SECRET; sleep 600", background: true });
    const { snapshot_id } = await call(own, "snapshot_sandbox", { sandbox });
    const ownVendor = await connect(daemon(), era, undo, veryfrontPath);
    const [first] = (await call(ownVendor, "list_sandbox_sessions")).data;
    things = { sandbox, id: made.session_id, command_id: run.command_id, snapshot_id, project_id: first.project_id };
  });

  test("sees and changes nothing with any tool", async () => {
    if (!own || !foreign || !foreignVendor) throw new Error("There are no clients");
    const before = await everything(own);
    const { project } = await others;
    for (const client of [foreign, foreignVendor]) {
      for (const { name, inputSchema } of (await client.listTools()).tools) {
        const about = Object.keys(inputSchema.properties ?? {}).filter((key) => key in things && key !== "project_id");
        if (about.length === 0) continue;
        const args = { ...usual(name), ...Object.fromEntries(about.map((key) => [key, things[key]])) };
        const scopes =
          "project_id" in (inputSchema.properties ?? {})
            ? [{}, { project_id: project }, { project_id: things.project_id }]
            : [{}];
        for (const scope of scopes) {
          const sentence = await refusal(client, name, { ...args, ...scope });
          expect(sentence, name).toMatch(/not found|belongs to another team/i);
          expect(sentence).not.toContain(secret);
        }
      }
    }
    expect((await call(foreign, "list_sandboxes")).sandboxes).toEqual([]);
    expect((await call(foreignVendor, "list_sandbox_sessions")).data).toEqual([]);
    for (const name of ["list_sandbox_sessions", "create_sandbox_session"]) {
      expect(await refusal(foreignVendor, name, { project_id: things.project_id })).toMatch(/belongs to another team/);
    }
    expect(await refusal(foreignVendor, "list_sandbox_sessions", { cursor: things.id })).toMatch(/cursor/);
    expect(await everything(own)).toEqual(before);
  });

  test("finds nothing in a project that its address names and another team has", async () => {
    const key = { url: daemon().url, key: (await others).key };
    const intruder = await connect(key, era, undo, `/mcp?project=${things.project_id}`);
    expect(await refusal(intruder, "list_sandboxes")).toMatch(/belongs to another team/);
    expect(await refusal(intruder, "get_sandbox", { sandbox })).toMatch(/belongs to another team/);
    const owner = await connect(daemon(), era, undo, `/mcp?project=${things.project_id}`);
    expect(await call(owner, "get_sandbox", { sandbox })).toMatchObject({ sandbox });
    const nowhere = await connect(daemon(), era, undo, "/mcp?project=nowhere");
    expect(await refusal(nowhere, "list_sandboxes")).toMatch(/Project not found: "nowhere"/);
  });

  async function everything(client: Client): Promise<Answer> {
    const all = [
      call(client, "get_sandbox", { sandbox }),
      call(client, "list_sandboxes"),
      call(client, "list_files", { sandbox }),
    ];
    const output = call(client, "read_command_output", { sandbox, command_id: things.command_id });
    return Promise.all([...all, output]);
  }
});

describe("over a restart", () => {
  test("an older session is gone and starts again; the newer protocol does not notice", async () => {
    const [legacy, modern] = await Promise.all(eras.map((era) => connect(daemon(), era, undo)));
    if (!legacy || !modern) throw new Error("There are no clients");
    const id = await begin();
    const { sandbox } = await call(modern, "create_sandbox");
    const started = Promise.withResolvers<string>();
    const waiting = call(
      modern,
      "run_command",
      { sandbox, command: "sleep 600" },
      {
        onprogress: ({ message = "" }) => started.resolve(/cmd_\w+/.exec(message)?.[0] ?? ""),
      },
    );
    waiting.catch(() => undefined);
    const command_id = await started.promise;
    await daemon().stop();
    await daemon().start();
    expect((await ask("POST", { body: ping, session: id })).status).toBe(404);
    await expect(call(legacy, "get_sandbox", { sandbox })).rejects.toThrow();
    const again = await connect(daemon(), "2025-11-25", undo);
    const shown = await eventually("it is found again", () => call(again, "get_sandbox", { sandbox }));
    expect(await call(modern, "get_sandbox", { sandbox })).toEqual(shown);
    expect(shown.status).toBe("running");
    // The daemon broke off the wait, and not the client.
    expect(await call(modern, "read_command_output", { sandbox, command_id })).toMatchObject({ status: "running" });
  });
});

/** made before the first test that needs it */
const others = new Promise<{ key: string; project: string }>((resolve, reject) => {
  beforeAll(() => secondTeam(daemon()).then(resolve, reject));
});

/** a tool's further arguments */
function usual(name: string): object {
  const values: Record<string, object> = {
    run_command: { command: "true" },
    execute_sandbox_command: { command: "true" },
    start_sandbox_command_job: { command: "true" },
    write_command_input: { data: "x" },
    read_file: { path: "a" },
    write_file: { path: "a", content: "x" },
    search_files: { glob: "*" },
    expose_port: { port: 4000 },
    set_network_policy: { network_policy: { mode: "deny-all" } },
    extend_sandbox: { seconds: 1 },
  };
  return values[name] ?? {};
}

async function begin(): Promise<string> {
  const { headers } = await ask("POST", { body: handshake });
  return String(headers["mcp-session-id"]);
}

interface Asked {
  body?: object | string;
  session?: string;
  path?: string;
  headers?: Record<string, string | undefined>;
}

/** sends a raw request: the usual client would correct some of it */
function ask(method: string, { body, session, path = "/mcp", headers = {} }: Asked = {}) {
  const { url, key } = daemon();
  const { hostname, port } = new URL(url);
  const sent = {
    authorization: `Bearer ${key}`,
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    ...(session !== undefined && { "mcp-session-id": session }),
    ...headers,
  };
  const given = Object.fromEntries(Object.entries(sent).filter(([, value]) => value !== undefined));
  return new Promise<{ status: number; headers: Record<string, unknown>; json: Answer }>((resolve, reject) => {
    const outgoing = request({ hostname, port, method, path, headers: given }, async (answer) => {
      const said = await text(answer).catch(() => "");
      const json = said.startsWith("{") ? JSON.parse(said) : undefined;
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers, json });
    });
    outgoing.on("error", reject);
    outgoing.end(typeof body === "object" ? JSON.stringify(body) : body);
  });
}
