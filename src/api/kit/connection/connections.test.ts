/** Behaviour that needs a real connection: when headers go out, clients that disconnect, how far uploads run ahead. */

import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { afterEach, expect, test } from "vitest";
import { apiClient, type Client } from "../../../../test/harness/api-client.ts";
import {
  command,
  commandId,
  endedCommand,
  key,
  type Overrides,
  sandbox,
  session,
  sessionId,
  streamOf,
} from "../../../../test/harness/fake-core.ts";
import { bodyBytes, json } from "../http.ts";
import { answerMalformed, apiListener } from "./listener.ts";

const base = `/api/v2/sandboxes/sessions/${sessionId}`;
const servers: Server[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});

interface Connected extends Client {
  /** a started request; the caller writes its body */
  begin(method: string, path: string, headers?: Record<string, string>): ReturnType<typeof request>;
  /** how many connections the server has */
  open(): number;
  port: number;
}

async function serve(overrides: Overrides = {}): Promise<Connected> {
  const client = apiClient(overrides);
  const server = createServer(apiListener(client.api));
  server.on("clientError", answerMalformed);
  servers.push(server);
  let connections = 0;
  server.on("connection", (socket) => {
    connections++;
    socket.on("close", () => connections--);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    ...client,
    port,
    open: () => connections,
    begin(method, path, headers = {}) {
      const auth = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const it = request({ host: "127.0.0.1", port, method, path, headers: { ...auth, ...headers }, agent: false });
      it.on("error", () => undefined);
      return it;
    },
  };
}

async function answerOf(it: ReturnType<typeof request>): Promise<IncomingMessage> {
  const [response] = await once(it, "response");
  return response;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}

test("a create is undone when its client disconnects before the answer", async () => {
  const begun = Promise.withResolvers<void>();
  const made = Promise.withResolvers<void>();
  const { begin, asked, open } = await serve({
    "sandboxes.create": async () => {
      begun.resolve();
      await made.promise;
      return { sandbox, session };
    },
  });
  const it = begin("POST", "/api/v3/sandboxes");
  it.end("{}");
  await begun.promise;
  it.destroy();
  await until(() => open() === 0);
  made.resolve();
  await until(() => asked("sandboxes.abandon").length > 0);
  expect(asked("sandboxes.abandon")).toHaveLength(1);
});

test("a create whose answer was sent stays, even if its client disconnects at once", async () => {
  const { begin, asked } = await serve();
  for (let i = 0; i < 20; i++) {
    const it = begin("POST", "/api/v3/sandboxes");
    it.end("{}");
    const response = await answerOf(it);
    response.destroy();
    await once(it, "close");
  }
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(asked("sandboxes.create")).toHaveLength(20);
  expect(asked("sandboxes.abandon")).toEqual([]);
});

test("headers arrive before the command ends", async () => {
  const ended = Promise.withResolvers<typeof endedCommand>();
  const { begin } = await serve({ "commands.get": async () => command, "commands.wait": () => ended.promise });
  const it = begin("GET", `${base}/cmd/${commandId}?wait=true`);
  it.end();
  const response = await answerOf(it);
  expect(response.statusCode).toBe(200);
  ended.resolve(endedCommand);
  expect(JSON.parse(Buffer.concat(await response.toArray()).toString()).command.exitCode).toBe(0);
});

test("a command's first line arrives before it ends, with the exact content type that clients require", async () => {
  const { begin } = await serve({ "commands.wait": () => new Promise(() => undefined) });
  const it = begin("POST", `${base}/cmd`, { "accept-encoding": "gzip, deflate, br" });
  it.end(JSON.stringify({ command: "x", wait: true }));
  const response = await answerOf(it);
  expect(response.headers["content-type"]).toBe("application/x-ndjson");
  expect(response.headers).not.toHaveProperty("content-encoding");
  const [first] = await once(response, "data");
  expect(JSON.parse(first.toString()).command.exitCode).toBeNull();
  response.destroy();
});

test("a short command's answer has a length, and every answer has the headers for browsers and of the rate", async () => {
  const { begin } = await serve();
  const usual = { "access-control-allow-origin": "*", "x-ratelimit-limit": "1000" };
  const run = begin("POST", `${base}/cmd`);
  run.end(JSON.stringify({ command: "x", wait: true, logs: true }));
  const answer = await answerOf(run);
  const body = Buffer.concat(await answer.toArray());
  expect(answer.headers).toMatchObject({ ...usual, "content-length": `${body.length}`, "cache-control": "no-store" });
  const get = begin("GET", base);
  get.end();
  expect((await answerOf(get)).headers).toMatchObject({ ...usual, "cache-control": "private" });
});

test("a client that disconnects ends only the stream", async () => {
  const aborted = Promise.withResolvers<void>();
  const waited = Promise.withResolvers<void>();
  const { begin, asked } = await serve({
    "commands.wait": (_: unknown, __: string, ___: string, signal: AbortSignal) => {
      signal.addEventListener("abort", () => aborted.resolve());
      waited.resolve();
      return new Promise(() => undefined);
    },
  });
  const it = begin("POST", `${base}/cmd`);
  it.end(JSON.stringify({ command: "x", wait: true }));
  const response = await answerOf(it);
  await waited.promise;
  response.destroy();
  await aborted.promise;
  expect(asked("commands.kill")).toEqual([]);
});

test("20 MB of output arrive complete", async () => {
  const chunk = { offset: 0, stream: "stdout" as const, data: Buffer.alloc(1 << 20, "x") };
  const { begin } = await serve({ "commands.output": async () => streamOf(Array(20).fill(chunk)) });
  const it = begin("GET", `${base}/cmd/${commandId}/logs`);
  it.end();
  const text = Buffer.concat(await (await answerOf(it)).toArray()).toString();
  const data = text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line).data.length);
  expect(data.reduce((sum, length) => sum + length, 0)).toBe(20 << 20);
});

test("an upload runs ahead of its unpacking by no more than the buffers hold", async () => {
  const finish = Promise.withResolvers<void>();
  const { begin } = await serve({
    "files.extract": async (_: unknown, __: string, ___: string, tar: AsyncIterable<Uint8Array>) => {
      await finish.promise;
      for await (const _chunk of tar);
    },
  });
  const it = begin("POST", `${base}/fs/write`, { "content-type": "application/gzip", "x-cwd": "/" });
  const piece = Buffer.alloc(256 << 10);
  let sent = 0;
  // Until the connection has taken nothing for a while.
  for (let stalled = false; !stalled && sent < 256 << 20; ) {
    sent += piece.length;
    if (it.write(piece)) continue;
    stalled = await Promise.race([
      once(it, "drain").then(() => false),
      new Promise<true>((r) => setTimeout(r, 300, true)),
    ]);
  }
  expect(sent).toBeLessThan(64 << 20);
  finish.resolve();
  it.end();
  expect((await answerOf(it)).statusCode).toBe(200);
});

test("a file that breaks off does not look complete", async () => {
  const { begin, logged } = await serve({
    "files.read": async () =>
      Readable.from(
        (async function* () {
          yield Buffer.alloc(300_000);
          await new Promise((resolve) => setImmediate(resolve));
          throw new Error("lost");
        })(),
      ),
  });
  const it = begin("POST", `${base}/fs/read`);
  it.end(JSON.stringify({ path: "x" }));
  const response = await answerOf(it);
  await expect(response.toArray()).rejects.toThrow("aborted");
  expect(logged).toHaveLength(1);
});

test("a request without a key is refused before its body is read", async () => {
  const { begin, asked } = await serve();
  const it = begin("POST", `${base}/fs/write`, { authorization: "Bearer wrong" });
  it.write(Buffer.alloc(1 << 20));
  expect((await answerOf(it)).statusCode).toBe(401);
  it.destroy();
  expect(asked("files.extract")).toEqual([]);
});

test("the client of a too long body sees the refusal, and the connection then closes", async () => {
  const { begin, asked } = await serve();
  const body = Buffer.alloc(40 << 20, " ");
  for (const headers of [{}, { "content-length": String(body.length) }]) {
    const it = begin("POST", "/api/v3/sandboxes", headers);
    const failed: unknown[] = [];
    it.on("error", (error) => void failed.push(error));
    const answered = answerOf(it);
    it.end(body);
    const response = await answered;
    expect([response.statusCode, response.headers.connection]).toEqual([400, "close"]);
    const { error } = JSON.parse(Buffer.concat(await response.toArray()).toString());
    expect(error).toEqual({
      code: "bad_request",
      message: "Invalid request: the body is longer than 4194304 bytes.",
    });
    expect(failed).toEqual([]);
  }
  expect(asked("sandboxes.create")).toEqual([]);
});

test("a refusal by a route that read only a part of the body leaves the connection to the next request", async () => {
  const sockets: Socket[] = [];
  const requests: IncomingMessage[] = [];
  const refused = Promise.withResolvers<void>();
  const api = {
    async fetch(request: Request) {
      if (request.method === "GET") return json({});
      // Like a reader of a form that gives up between two parts.
      await bodyBytes(request)[Symbol.asyncIterator]().next();
      await until(() => requests[0]?.complete ?? false);
      refused.resolve();
      return json({}, 400);
    },
  };
  const listener = apiListener(api);
  const server = createServer((request, response) => {
    requests.push(request);
    listener(request, response);
  });
  server.listen(0, "127.0.0.1");
  servers.push(server);
  server.on("connection", (socket) => void sockets.push(socket));
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  let received = "";
  socket.setEncoding("utf8").on("data", (text) => {
    received += text;
  });
  socket.write("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n");
  await refused.promise;
  const end = requests[0]?.readableEnded ? "read" : once(requests[0] ?? server, "end").then(() => "read");
  expect(await Promise.race([end, once(socket, "close").then(() => "closed")])).toBe("read");
  await until(() => received.includes("400 Bad Request"));
  socket.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  await until(() => received.includes("200 OK"));
  expect(sockets).toHaveLength(1);
  socket.destroy();
});

test.each([
  ["no HTTP", "nonsense\r\n\r\n", 400, "Invalid request: it is not HTTP."],
  [
    "endless headers",
    `GET / HTTP/1.1\r\nx: ${"a".repeat(70_000)}\r\n\r\n`,
    431,
    "Invalid request: its headers are too long.",
  ],
])("%s is refused in the shape of every error", async (_, sent, status, message) => {
  const { port } = await serve();
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.write(sent);
  const [head = "", body = ""] = (await text(socket)).split("\r\n\r\n");
  expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(head).toContain("connection: close");
  expect(JSON.parse(body)).toEqual({ error: { code: "bad_request", message } });
});

test.each([
  ["a host that can be none", "GET /health HTTP/1.1\r\nhost: a b\r\nconnection: close\r\n\r\n"],
  ["a path that is none", "OPTIONS * HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"],
])("%s is refused in the shape of every error", async (_, sent) => {
  const { port } = await serve();
  const [head = "", body = ""] = (await said(port, sent)).split("\r\n\r\n");
  expect(head).toMatch(/^HTTP\/1.1 400 /);
  const message = "Invalid request: its host or its path is malformed.";
  expect(JSON.parse(body)).toEqual({ error: { code: "bad_request", message } });
});

test("HTTP/1.0 without a host is answered, because health checks use it", async () => {
  const { port } = await serve();
  expect(await said(port, "GET /health HTTP/1.0\r\n\r\n")).toMatch(/^HTTP\/1.1 200 .*"status":"ok"/s);
});

/** everything that the server sends in reply, until it closes the connection */
function said(port: number, sent: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.write(sent);
  return text(socket);
}
