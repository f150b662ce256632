/** Requests of Node's server as web Requests: what routes and libraries may ask of them. */

import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { Answer } from "../answer.ts";
import { bearerOf } from "../authentication.ts";
import { bodyText, json } from "../http.ts";
import { apiListener } from "./listener.ts";

/** what the server answers to a request that a route of this kind gets */
async function asked(
  route: (request: Request) => Response | Promise<Response>,
  { method = "POST", path = "/a?b=c", headers = {}, body = '{"n":1}' }: Partial<Asked> = {},
): Promise<{ status: number | undefined; headers: NodeJS.Dict<string | string[]>; text: string }> {
  const server = createServer(apiListener({ fetch: async (request) => route(request) }));
  onTestFinished(() => void server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const sent = request({ host: "127.0.0.1", port, method, path, headers: { host: "example.com", ...headers } });
  sent.end(method === "GET" ? undefined : body);
  const [response] = await once(sent, "response");
  return { status: response.statusCode, headers: response.headers, text: await text(response) };
}

interface Asked {
  method: string;
  path: string;
  headers: Record<string, string | string[]>;
  body: string;
}

test("a route finds the method, the address, the headers and the body", async () => {
  const { text } = await asked(
    async (request) =>
      json({
        method: request.method,
        url: request.url,
        type: request.headers.get("Content-Type"),
        missing: [request.headers.get("x-none"), request.headers.has("x-none")],
        several: request.headers.get("x-several"),
        body: await bodyText(request, 100),
      }),
    { headers: { "content-type": "a/b", "x-several": ["1", "2"] } },
  );
  expect(JSON.parse(text)).toEqual({
    method: "POST",
    url: "http://example.com/a?b=c",
    type: "a/b",
    missing: [null, false],
    several: "1, 2",
    body: '{"n":1}',
  });
});

test("a library finds everything that a web Request has", async () => {
  const { text } = await asked(async (request) => {
    const copy = request.clone();
    return json({
      isRequest: request instanceof Request,
      names: [...request.headers.keys()],
      copy: await copy.json(),
      body: await request.text(),
      used: request.bodyUsed,
      aborted: request.signal.aborted,
    });
  });
  expect(JSON.parse(text)).toEqual({
    isRequest: true,
    names: ["connection", "content-length", "host"],
    copy: { n: 1 },
    body: '{"n":1}',
    used: true,
    aborted: false,
  });
});

test("two tokens are no token, though Node itself would take the first", async () => {
  const route = (request: Request) => json({ token: bearerOf(request) });
  const one = await asked(route, { headers: { authorization: "Bearer a" } });
  expect(JSON.parse(one.text)).toEqual({ token: "a" });
  const two = await asked(route, { headers: { authorization: ["Bearer a", "Bearer b"] } });
  expect(two.status).toBe(500);
});

test.each([
  ["/a/../b", "http://example.com/b"],
  ["/a%20b", "http://example.com/a%20b"],
  ["//other/x", "http://example.com//other/x"],
  ["http://example.com/x", "http://example.com/x"],
])("the address of %j is %s", async (path, url) => {
  const { text } = await asked((request) => json({ url: request.url }), { path });
  expect(JSON.parse(text)).toEqual({ url });
});

test.each([
  ["example.com/x", "/"],
  ["user@example.com", "/"],
  ["a b", "/"],
  ["example.com", "/a\\b"],
])("the host %j with the path %j is refused", async (host, path) => {
  const { status } = await asked(() => json({}), { path, headers: { host } });
  expect(status).toBe(400);
});

test("an answer has the length of its body in bytes, and its own headers", async () => {
  const answer = Answer.of("€", 201, { "content-type": "text/plain", "x-own": "1" });
  answer.headers.append("set-cookie", "a=1");
  answer.headers.append("set-cookie", "b=2");
  const { status, headers, text } = await asked(() => answer);
  expect([status, text]).toEqual([201, "€"]);
  expect(headers).toMatchObject({ "content-length": "3", "x-own": "1", "set-cookie": ["a=1", "b=2"] });
});

test("an answer without a body has no length where HTTP allows none", async () => {
  expect((await asked(() => Answer.of(null, 204))).headers).not.toHaveProperty("content-length");
  expect((await asked(() => Answer.of(null, 202))).headers).toMatchObject({ "content-length": "0" });
});

test("an answer is a web Response to its readers", async () => {
  const answer = Answer.of('{"n":1}', 404, { "content-type": "application/json" });
  expect([answer instanceof Response, answer.ok, answer.status]).toEqual([true, false, 404]);
  expect(answer.headers.get("content-type")).toBe("application/json");
  expect(await answer.clone().text()).toBe('{"n":1}');
  expect(await answer.json()).toEqual({ n: 1 });
});

test("a web Response with a stream arrives whole", async () => {
  const parts = ["one ", "two ", "three"];
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const next = parts.shift();
      if (next === undefined) controller.close();
      else controller.enqueue(new TextEncoder().encode(next));
    },
  });
  const { status, text } = await asked(() => new Response(body, { status: 203 }));
  expect([status, text]).toEqual([203, "one two three"]);
});
