/** Which dialect answers each path and credential. */

import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { apiClient } from "../../test/harness/api-client.ts";

test("the SDK's base path and the documented one lead to the same routes", async () => {
  const { ask } = apiClient();
  expect((await ask("GET", "/api/v2/sandboxes/demo")).json).toEqual((await ask("GET", "/v2/sandboxes/demo")).json);
});

test("outside /api too, a request without credentials is answered that the token is missing", async () => {
  const { ask, calls } = apiClient();
  const { status, json } = await ask("GET", "/v2/sandboxes/demo", undefined, { token: null });
  expect([status, json.error.code]).toEqual([401, "unauthorized"]);
  expect(calls).toEqual([]);
});

test("a path outside /api that two vendors share leads to the vendor of the credential", async () => {
  const { ask } = apiClient();
  const request = { token: null, headers: { "x-api-key": "e2b_1" } };
  const { status, json } = await ask("GET", "/v2/sandboxes/demo", undefined, request);
  expect([status, json]).toEqual([401, { code: 401, message: expect.stringContaining("API key") }]);
  expect((await ask("GET", "/v2/sandboxes/demo")).json.sandbox.name).toBe("demo");
});

test.each([null, "sk_other", "a b"])("the token %j is refused with 401", async (token) => {
  const { ask, calls } = apiClient();
  const { status, json } = await ask("GET", "/api/v2/sandboxes/demo", undefined, { token });
  expect([status, json.error.code]).toEqual([401, "unauthorized"]);
  expect(calls.filter(({ method }) => method !== "access.authenticate")).toEqual([]);
});

test("the health check and the login information need no key", async () => {
  const { ask } = apiClient();
  const health = await ask("GET", "/health", undefined, { token: null });
  expect([health.status, health.json]).toEqual([200, { status: "ok", domain: "localhost" }]);
  const { json } = await ask("GET", "/.well-known/openid-configuration", undefined, { token: null });
  expect(json.token_endpoint).toBe("http://127.0.0.1:7700/api/login/oauth/token");
});

test("the daemon's address shows a welcome text", async () => {
  const { ask } = apiClient();
  const { status, text } = await ask("GET", "/", undefined, { token: null });
  expect([status, text]).toEqual([200, expect.stringContaining("sandkeep env vercel --url http://127.0.0.1:7700")]);
});

test.each([
  ["POST", "/"],
  ["GET", "/api/v2/nothing"],
  ["PUT", "/api/v2/sandboxes/demo"],
  ["GET", "/api/v5/sandboxes"],
])("%s %s is not found, in JSON", async (method, path) => {
  const { ask } = apiClient();
  const { status, json } = await ask(method, path);
  expect([status, json.error.code]).toEqual([404, "not_found"]);
});

test("an internal error is logged and not shown to the caller", async () => {
  const { ask, logged } = apiClient({
    "sandboxes.get": async () => {
      throw new Error("the disk is on fire at /secret");
    },
  });
  const { status, text } = await ask("GET", "/api/v2/sandboxes/demo");
  expect(status).toBe(500);
  expect(text).not.toContain("secret");
  expect(logged).toHaveLength(1);
});

test.each(["//", "http://[", "//["])("an upgrade of the path %s is refused, and the daemon goes on", async (path) => {
  const { api, logged } = apiClient();
  const socket = new PassThrough();
  const request = { url: path, headers: { host: "127.0.0.1:7700" } } as IncomingMessage;
  api.upgrade(request, socket, Buffer.alloc(0));
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 400 /);
  expect(logged).toEqual([]);
});
