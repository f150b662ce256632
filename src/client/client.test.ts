/** The client: it fills paths and queries, returns JSON, lines and bytes, and opens broken streams of events again. */

import { expect, test } from "vitest";
import { apiClient } from "../../test/harness/api-client.ts";
import { key, type Overrides, sessionId } from "../../test/harness/fake-core.ts";
import type { OpenApi } from "../api/sandkeep/frame/openapi.ts";
import { type ApiError, routes, SandkeepClient } from "./client.ts";

function clientOf(overrides: Overrides = {}) {
  const fake = apiClient(overrides);
  const asked: string[] = [];
  const fetch = (request: Request) => {
    asked.push(`${request.method} ${new URL(request.url).pathname}${new URL(request.url).search}`);
    return fake.api.fetch(request);
  };
  return { ...fake, asked, client: new SandkeepClient({ url: "http://127.0.0.1:7700", key, fetch }) };
}

test("it knows every operation of the document", async () => {
  const { ask } = apiClient();
  const { json } = await ask("GET", "/sandkeep/v1/openapi.json");
  const document: OpenApi = json;
  const all = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId }]) => [operationId, `${method.toUpperCase()} ${path}`]),
  );
  const own = all.filter(([id]) => !id?.endsWith("InSandbox"));
  expect(Object.entries(routes).sort()).toEqual(own.sort());
});

test("a call names a session, or the sandbox whose current session it is about", async () => {
  const { client, asked } = clientOf();
  const body = { command: "echo", args: ["hi"] };
  const started = await client.call("startCommand", { params: { sandbox: "demo" }, body });
  expect(started.command).toBe("echo");
  await client.call("startCommand", { params: { session: sessionId }, body });
  expect(asked).toEqual([
    "POST /sandkeep/v1/sandboxes/demo/commands",
    `POST /sandkeep/v1/sessions/${sessionId}/commands`,
  ]);
});

test("a client's team and project go with each request that takes them", async () => {
  const asked: string[] = [];
  const fetch = async (request: Request) => {
    asked.push(request.url.slice("http://127.0.0.1:7700/sandkeep/v1".length));
    return Response.json({});
  };
  const client = new SandkeepClient({ url: "http://127.0.0.1:7700", scope: { team: "ml", project: "web" }, fetch });
  await client.call("listSandboxes", { query: { limit: 5 } });
  await client.call("listTeams");
  await client.call("listKeys");
  await client.call("getSession", { params: { session: sessionId } });
  await client.call("listCommands", { params: { sandbox: "demo" } });
  await client.call("listProjects", { query: { team: "other" } });
  expect(asked).toEqual([
    "/sandboxes?team=ml&project=web&limit=5",
    "/teams",
    "/keys?team=ml",
    `/sessions/${sessionId}?team=ml`,
    "/sandboxes/demo/commands?team=ml&project=web",
    "/projects?team=other",
  ]);
});

test("names are escaped in paths, and lists and numbers written in queries", async () => {
  const { client, asked } = clientOf();
  await client.call("listSandboxes", { query: { state: ["running", "paused"], limit: 5 } });
  await expect(client.call("getSandbox", { params: { sandbox: "a/b ?" } })).rejects.toThrow("not found");
  expect(asked).toEqual([
    "GET /sandkeep/v1/sandboxes?state=running&state=paused&limit=5",
    "GET /sandkeep/v1/sandboxes/a%2Fb%20%3F",
  ]);
});

test("a refusal has the status, the code, the field and the daemon's sentence", async () => {
  const { client } = clientOf();
  const wrong = { name: "demo", timeout: 1 };
  const error = (await client.call("createSandbox", { body: wrong }).catch((each) => each)) as ApiError;
  expect([error.status, error.code, error.field]).toEqual([400, "invalid", "timeout"]);
  expect(error.message).toBe("Invalid request: `timeout` should be >= 1000.");
});

test("lines of a stream come one by one", async () => {
  const { client } = clientOf();
  const params = { sandbox: "demo", command: "cmd_0000000000000000000000000001" };
  const lines = await Array.fromAsync(client.lines("readOutput", { params, query: { follow: true } }));
  expect(lines).toEqual([{ stream: "stdout", data: "hi\n", offset: 0, next: 3, dropped: 0 }]);
});

test("a stream of events that breaks off is opened again after its last event", async () => {
  const begun: unknown[] = [];
  const follow = async (_: unknown, { after }: { after?: string }) =>
    (async function* () {
      begun.push(after);
      yield { type: "sandbox.created", sandbox: "a", sandboxId: "b", cursor: `x-${begun.length}`, at: 1 };
    })();
  const { client } = clientOf({ "events.follow": follow });
  const seen: string[] = [];
  for await (const { cursor } of client.events({})) {
    seen.push(cursor);
    if (seen.length === 2) break;
  }
  expect([seen, begun]).toEqual([
    ["x-1", "x-2"],
    [undefined, "x-1"],
  ]);
});

test("the compiler refuses what an operation does not take, and knows what it returns", () => {
  const { client } = clientOf();
  const never = () => [
    // @ts-expect-error: a sandbox has no such setting
    client.call("createSandbox", { body: { surprise: 1 } }),
    // @ts-expect-error: the path needs a name
    client.call("getSandbox"),
    // @ts-expect-error: a number is not a state
    client.call("listSandboxes", { query: { state: 5 } }),
    client.call("getSandbox", { params: { sandbox: "a" }, query: { team: "ml", project: "web" } }),
    // @ts-expect-error: there is no such operation
    client.call("explode"),
    client
      .call("getCommand", { params: { sandbox: "a", command: "b" } })
      .then(({ exitCode }) => exitCode satisfies number | null),
  ];
  expect(never).toBeTypeOf("function");
});
