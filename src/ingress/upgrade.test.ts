/** WebSockets and other upgrades through the ingress, and what only looks like one. */

import { EventEmitter, once } from "node:events";
import type { Server } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { eventually } from "../../test/harness/harness.ts";
import { asking, digest, webHost as host, serving } from "../../test/harness/network/ingress.ts";
import { SandkeepError } from "../core/model/errors.ts";

test("a WebSocket carries text, bytes and its closing code both ways", async () => {
  const { port } = await serving({ app: () => undefined, onApp: echoSockets });
  const client = new WebSocket(`ws://127.0.0.1:${port}/chat?x=1`, ["beta"], { headers: { host, origin: "http://x" } });
  onTestFinished(() => client.terminate());
  await once(client, "open");
  expect(client.protocol).toBe("beta");
  client.send("grüße");
  const [greeting] = await once(client, "message");
  expect(String(greeting)).toBe("/chat?x=1 grüße");
  const large = Buffer.alloc(3 << 20, "w");
  client.send(large);
  const [bytes, isBinary] = await once(client, "message");
  expect(isBinary).toBe(true);
  expect(digest(bytes)).toBe(digest(large));
  client.close(4001, "bye");
  const [code, reason] = await once(client, "close");
  expect([code, String(reason)]).toEqual([4001, "bye"]);
});

test("a WebSocket that the sandbox refuses, or that leads nowhere, is refused with the reason", async () => {
  const { port } = await serving({
    app: () => undefined,
    onApp: (app) => app.on("upgrade", (_req, socket) => socket.end("HTTP/1.1 401 No\r\nContent-Length: 3\r\n\r\nno!")),
  });
  const refused = new WebSocket(`ws://127.0.0.1:${port}/`, { headers: { host } });
  const [, answer] = await once(refused, "unexpected-response");
  expect([answer.statusCode, answer.headers.connection, await text(answer)]).toEqual([401, "close", "no!"]);

  const nowhere = await serving({
    routes: {
      async connect() {
        throw new SandkeepError("gone", "Cannot: no");
      },
    },
  });
  const dead = new WebSocket(`ws://127.0.0.1:${nowhere.port}/`, { headers: { host } });
  const [, gone] = await once(dead, "unexpected-response");
  expect([gone.statusCode, JSON.parse(await text(gone)).error.code]).toEqual([410, "SANDBOX_STOPPED"]);
});

test("an answer that switches protocols and names none is not passed on", async () => {
  const { port } = await serving({
    tcp: (socket) => void socket.once("data", () => socket.end("HTTP/1.1 101\r\n\r\n")),
  });
  const refused = new WebSocket(`ws://127.0.0.1:${port}/`, { headers: { host } });
  const [, answer] = await once(refused, "unexpected-response");
  expect([answer.statusCode, JSON.parse(await text(answer)).error.code]).toEqual([502, "SANDBOX_BAD_ANSWER"]);
});

test("either end of a WebSocket that vanishes closes the other", async () => {
  const sockets: WebSocket[] = [];
  const { port } = await serving({
    app: () => undefined,
    onApp: (app) => new WebSocketServer({ server: app }).on("connection", (socket) => sockets.push(socket)),
  });
  const open = async () => {
    const client = new WebSocket(`ws://127.0.0.1:${port}/`, { headers: { host } });
    await once(client, "open");
    const server = await eventually("the program has it", () => sockets.pop());
    return { client, server };
  };
  const one = await open();
  one.client.terminate();
  await once(one.server, "close");
  const two = await open();
  two.server.terminate();
  await once(two.client, "close");
});

test("a WebSocket needs few listeners of each connection: Node warns of a leak from eleven on", async () => {
  const warnings: Error[] = [];
  const warned = (warning: Error) => void warnings.push(warning);
  process.on("warning", warned);
  const usual = EventEmitter.defaultMaxListeners;
  EventEmitter.defaultMaxListeners = 8;
  onTestFinished(() => {
    process.off("warning", warned);
    EventEmitter.defaultMaxListeners = usual;
  });
  const { port } = await serving({ app: () => undefined, onApp: echoSockets });
  const client = new WebSocket(`ws://127.0.0.1:${port}/`, { headers: { host } });
  await once(client, "open");
  client.send("x");
  await once(client, "message");
  client.close();
  await once(client, "close");
  expect(warnings.map(({ message }) => message)).toEqual([]);
});

test("a client that merely offers HTTP/2 gets an ordinary answer, body and all", async () => {
  const ask = await asking({ app: async (req, res) => res.end(`${req.headers.upgrade} ${await text(req)}`) });
  const headers = { Connection: "Upgrade, HTTP2-Settings", Upgrade: "h2c", "HTTP2-Settings": "AAMAAABk" };
  expect((await ask({ method: "POST", headers, body: "hello" })).body).toBe("undefined hello");
});

test("an upgrade with a body is refused: its bytes would be in nobody's parser", async () => {
  const { port } = await serving({ app: () => undefined });
  const client = connect(port, "127.0.0.1");
  onTestFinished(() => void client.destroy());
  client.write(
    `POST / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\nhello`,
  );
  expect(await text(client)).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
});

function echoSockets(app: Server): void {
  new WebSocketServer({ server: app }).on("connection", (socket, req) => {
    socket.on("message", (data, isBinary) => socket.send(isBinary ? data : `${req.url} ${data}`, { binary: isBinary }));
  });
}

test("an upgrade is checked and prepared like any other request, and what it must not see stays behind", async () => {
  const seen: (string | undefined)[] = [];
  const { port } = await serving({
    app: () => undefined,
    onApp: (app) =>
      app.on("upgrade", (request, socket) => {
        seen.push(`${request.headers["x-token"]}`);
        socket.end("HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: own\r\n\r\n");
      }),
    ports: {
      portOf: () => undefined,
      tokenHeader: "x-other",
      isToken: () => true,
      ready: async (_port, { headers }) =>
        headers["x-token"] === "right"
          ? { dropped: ["x-token"] }
          : { refusal: { status: 401, message: "Cannot: the token is wrong" } },
    },
  });
  const upgrade = (token: string) => {
    const client = connect(port, "127.0.0.1");
    client.end(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: own\r\nX-Token: ${token}\r\n\r\n`);
    return text(client);
  };
  expect(await upgrade("wrong")).toMatch(/^HTTP\/1\.1 401 /);
  expect(await upgrade("right")).toMatch(/^HTTP\/1\.1 101 /);
  expect(seen).toEqual(["undefined"]);
});

test("by path, the answer to an upgrade stays below its path too", async () => {
  const answer =
    "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: own\r\nSet-Cookie: a=1; Path=/\r\nNEL: {}\r\n\r\n";
  const { port } = await serving({
    app: () => undefined,
    onApp: (app) => app.on("upgrade", (_request, socket) => socket.end(answer)),
  });
  const client = connect(port, "127.0.0.1");
  client.end("GET /port/sb-web/ws HTTP/1.1\r\nHost: own.test\r\nConnection: Upgrade\r\nUpgrade: own\r\n\r\n");
  const head = await text(client);
  expect(head).toContain("Set-Cookie: a=1; Path=/port/sb-web/\r\n");
  expect(head).not.toMatch(/^NEL:/im);
});
