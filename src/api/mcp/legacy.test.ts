/** Sessions of the older protocol: their owners, and how many are kept. */

import { type AuthInfo, McpServer } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { LegacySessions } from "./legacy.ts";

const team = (clientId: string): AuthInfo => ({ token: "", clientId, scopes: [] });

function sessions(options: { most?: number; idle?: number } = {}) {
  const fixture = { now: 1000, logged: [] as unknown[] };
  const legacy = new LegacySessions({
    factory: () => new McpServer({ name: "test", version: "1" }),
    clock: () => fixture.now,
    logError: (error) => void fixture.logged.push(error),
    ...options,
  });
  const send = (body: object, owner: string, id?: string) =>
    legacy.handle(
      new Request("http://localhost/mcp", {
        method: "POST",
        headers: {
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          ...(id !== undefined && { "mcp-session-id": id }),
        },
        body: JSON.stringify(body),
      }),
      team(owner),
    );
  return {
    fixture,
    legacy,
    async begin(owner: string): Promise<string> {
      const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
      const response = await send({ jsonrpc: "2.0", id: 1, method: "initialize", params }, owner);
      await response.text();
      return response.headers.get("mcp-session-id") ?? "";
    },
    async isThere(id: string, owner: string): Promise<boolean> {
      const response = await send({ jsonrpc: "2.0", id: 2, method: "ping" }, owner, id);
      await response.text();
      expect([200, 404]).toContain(response.status);
      return response.status === 200;
    },
  };
}

test("a new session replaces the least recently used one of the same team only", async () => {
  const { begin, isThere, fixture } = sessions({ most: 2 });
  const [other, first, second] = [await begin("b"), await begin("a"), await begin("a")];
  expect(await isThere(first, "a")).toBe(true);
  const third = await begin("a");
  expect(await Promise.all([first, second, third].map((id) => isThere(id, "a")))).toEqual([true, false, true]);
  expect(await isThere(other, "b")).toBe(true);
  expect(await isThere(other, "a")).toBe(false);
  expect(fixture.logged).toEqual([]);
});

test("an unused session is dropped", async () => {
  const { begin, isThere, fixture } = sessions({ idle: 100 });
  const [idle, used] = [await begin("a"), await begin("a")];
  fixture.now += 80;
  expect(await isThere(used, "a")).toBe(true);
  fixture.now += 80;
  await begin("b");
  expect(await isThere(idle, "a")).toBe(false);
  expect(await isThere(used, "a")).toBe(true);
});

test("a request without a handshake leaves no session behind", async () => {
  const { legacy, begin, isThere } = sessions({ most: 1 });
  const id = await begin("a");
  const junk = new Request("http://localhost/mcp", {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
  });
  expect((await legacy.handle(junk, team("a"))).status).toBe(400);
  expect(await isThere(id, "a")).toBe(true);
});
