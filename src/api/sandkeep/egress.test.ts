/** The egress log on our own API: its format, who may read it, and what is refused. */

import { expect, test } from "vitest";
import { apiClient } from "../../../test/harness/api-client.ts";
import { session, sessionId } from "../../../test/harness/fake-core.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import type { EgressLine } from "../../core/network/egress-log.ts";

const path = `/sandkeep/v1/sessions/${sessionId}/egress`;
const line: EgressLine = {
  id: 3,
  at: 7,
  protocol: "tls",
  sni: "api.test",
  allowed: true,
  rule: "allow api.test",
  count: 1,
  ended: 1,
  bytesIn: 5,
  bytesOut: 6,
};
const hosts = [
  { host: "api.test", connections: 1, bytesIn: 5, bytesOut: 6 },
  { host: "b.test", connections: 2, bytesIn: 1, bytesOut: 1 },
];
const ports = [{ port: 3000, connections: 2, bytesIn: 40, bytesOut: 50 }];

test("a page has the lines, the next offset, and bytes by host, by port and in total", async () => {
  const totals = { ingressBytes: 900, egressBytes: 800 };
  const page = async () => ({ session, lines: [line], next: 3, more: true, hosts, ports, totals });
  const { ask, calls } = apiClient({ "egress.page": page });
  const answer = await ask("GET", `${path}?after=2&limit=1`);
  expect(answer.status).toBe(200);
  expect(answer.json).toEqual({
    session: { id: sessionId, sandbox: "demo", state: "running" },
    events: [line],
    next: 3,
    more: true,
    hosts,
    ports,
    totals: { payload: { bytesIn: 46, bytesOut: 57 }, packets: { bytesIn: 900, bytesOut: 800 } },
  });
  expect(calls.find(({ method }) => method === "egress.page")?.args.slice(1)).toEqual([
    sessionId,
    { after: 2, limit: 1 },
  ]);
});

test("a sandbox's path shows its last session", async () => {
  const { ask } = apiClient();
  expect((await ask("GET", "/sandkeep/v1/sandboxes/demo/egress?project=prj_default")).json.session.id).toBe(sessionId);
  expect((await ask("GET", "/sandkeep/v1/sandboxes/other/egress")).status).toBe(404);
  expect((await ask("GET", "/sandkeep/v1/sandboxes/demo/egress?project=prj_foreign")).status).toBe(403);
});

test("a followed log is a line of JSON per event, and a stream that breaks off gives the reason", async () => {
  async function* lines() {
    yield line;
    throw new Error("secret");
  }
  const { send, logged } = apiClient({ "egress.follow": async () => lines() });
  const response = await send("GET", `${path}?follow=true&after=2`);
  expect(response.headers.get("content-type")).toBe("application/x-ndjson");
  const [first = "", last = ""] = (await response.text()).trim().split("\n");
  expect(JSON.parse(first)).toEqual(line);
  expect(JSON.parse(last)).toEqual({ error: { code: "internal", message: "An internal error occurred" } });
  expect(logged).toHaveLength(1);
});

test("a client that disconnects ends the stream", async () => {
  const ended = Promise.withResolvers<void>();
  const follow = async (_: unknown, __: unknown, { signal }: { signal: AbortSignal }) =>
    (async function* () {
      try {
        yield line;
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
      } finally {
        ended.resolve();
      }
    })();
  const { send } = apiClient({ "egress.follow": follow });
  const reader = (await send("GET", `${path}?follow=true`)).body?.getReader();
  await reader?.read();
  await reader?.cancel();
  await ended.promise;
});

test("a suggestion is a policy in the form that Vercel's clients send", async () => {
  const policy = {
    mode: "custom",
    domains: [{ domain: "api.test", rules: [] }],
    allowedCidrs: ["93.184.216.34/32"],
    deniedCidrs: [],
  };
  const { ask } = apiClient({ "egress.suggestion": async () => ({ session, policy, notes: ["Note"] }) });
  const { json } = await ask("GET", `${path}/suggestion`);
  expect(json.networkPolicy).toEqual({ allow: ["api.test"], subnets: { allow: ["93.184.216.34/32"] } });
  expect(json.notes).toEqual(["Note"]);
});

test.each([
  "after=-1",
  "after=x",
  "after=1.5",
  "after=1e3",
  "after=9999999999999999999",
  "after=1&after=2",
  "limit=0",
  "limit=1001",
  "limit=",
  "follow=yes",
  "follow=true&limit=5",
  "project=prj_default",
  "unknown=1",
])("the query %s is refused with a message", async (query) => {
  const { ask, calls, logged } = apiClient();
  const answer = await ask("GET", `${path}?${query}`);
  expect(answer.status).toBe(400);
  expect(answer.json.error).toMatchObject({ code: "invalid", message: expect.stringMatching(/^Invalid request: /) });
  expect(calls.some(({ method }) => method.startsWith("egress."))).toBe(false);
  expect(logged).toEqual([]);
});

test("a missing key, a wrong id and a wrong path are refused", async () => {
  const { ask } = apiClient();
  expect((await ask("GET", path, undefined, { token: null })).status).toBe(401);
  expect((await ask("GET", path, undefined, { token: "wrong" })).json.error.code).toBe("unauthenticated");
  expect((await ask("GET", "/sandkeep/v1/sessions/..%2f/egress")).status).toBe(404);
  expect((await ask("GET", "/sandkeep/v1/sandboxes/a%00b/egress")).status).toBe(400);
  expect((await ask("POST", path)).status).toBe(404);
  expect((await ask("GET", "/sandkeep/v1")).status).toBe(404);
});

test("a log that is no longer kept is a 410", async () => {
  const gone = async () => {
    throw new SandkeepError("gone", "It is no longer kept");
  };
  const { ask } = apiClient({ "egress.page": gone, "egress.follow": gone });
  expect((await ask("GET", path)).status).toBe(410);
  expect((await ask("GET", `${path}?follow=true`)).status).toBe(410);
});
