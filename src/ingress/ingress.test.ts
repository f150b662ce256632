/** The ingress between real clients and real servers on this host; only the routes are made up. */

import { once } from "node:events";
import { Agent, createServer, get, request } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../../test/harness/harness.ts";
import {
  asking,
  digest,
  webHost as host,
  listening,
  read,
  response,
  serving,
} from "../../test/harness/network/ingress.ts";
import { type ErrorCode, SandkeepError } from "../core/model/errors.ts";

test("a request reaches the sandbox's port with its method, path, body and host, and the answer comes back", async () => {
  const ask = await asking({
    app: async (req, res) => {
      res.writeHead(
        201,
        "Made",
        [
          ["X-Seen", `${req.method} ${req.url} ${req.headers.host}`],
          ["X-Two", "a"],
          ["X-Two", "b"],
        ].flat(),
      );
      res.end(`got ${await text(req)}`);
    },
  });
  const answer = await ask({ method: "PUT", path: "/a%20b?c=d", body: "hello" });
  expect(answer).toMatchObject({ status: 201, reason: "Made", body: "got hello" });
  expect(answer.headers).toMatchObject({ "x-seen": `PUT /a%20b?c=d ${host}`, "x-two": "a, b" });
});

test("the program is told who asked, and cannot be told so by the client's own hop-by-hop headers", async () => {
  const ask = await asking({ app: (req, res) => res.end(JSON.stringify(req.headers)) });
  const headers = {
    Connection: "close, X-Secret-Hop, Host",
    "X-Secret-Hop": "1",
    "Keep-Alive": "timeout=5",
    "Proxy-Authorization": "Basic eA==",
    TE: "trailers",
    Authorization: "Bearer of-the-app",
  };
  const seen = JSON.parse((await ask({ headers })).body);
  expect(seen).toMatchObject({
    host,
    authorization: "Bearer of-the-app",
    "x-forwarded-for": "127.0.0.1",
    "x-forwarded-host": host,
    "x-forwarded-proto": "http",
    connection: "keep-alive",
  });
  for (const name of ["x-secret-hop", "keep-alive", "proxy-authorization", "te"]) expect(seen).not.toHaveProperty(name);
});

test("a POST without a body arrives as one without a body", async () => {
  const ask = await asking({
    app: async (req, res) => res.end(`${req.headers["transfer-encoding"]} [${await text(req)}]`),
  });
  expect((await ask({ method: "POST" })).body).toBe("undefined []");
});

test("hop-by-hop headers of the program stay behind, and its cookies cannot reach its neighbours", async () => {
  const cookies = ["a=1; Domain=localhost; Path=/", "b=2; domain=.LOCALHOST", `c=3; Domain=${host}`, "d=4; HttpOnly"];
  const ask = await asking({
    app: (_req, res) => {
      res.setHeader("Set-Cookie", cookies);
      res.setHeader("Connection", "close, X-Hop");
      res.setHeader("X-Hop", "1");
      res.end();
    },
  });
  const { headers } = await ask();
  expect(headers["set-cookie"]).toEqual(["a=1; Path=/", "b=2", `c=3; Domain=${host}`, "d=4; HttpOnly"]);
  expect(headers).not.toHaveProperty("x-hop");
});

test.each<[ErrorCode, number, string]>([
  ["not-found", 404, "SANDBOX_NOT_FOUND"],
  ["gone", 410, "SANDBOX_STOPPED"],
  ["conflict", 502, "SANDBOX_NOT_LISTENING"],
  ["internal", 502, "SANDBOX_UNREACHABLE"],
])("an error of the core (%s) is status %i and code %s, as JSON or as a page", async (code, status, name) => {
  const connect = async () => {
    throw new SandkeepError(code, "Cannot: no");
  };
  const ask = await asking({ routes: { connect } });
  const asJson = await ask({ headers: { Accept: "*/*" } });
  expect(asJson.status).toBe(status);
  expect(JSON.parse(asJson.body).error.code).toBe(name);
  const asPage = await ask({ headers: { Accept: "text/html,application/xhtml+xml,application/json;q=0.5" } });
  expect(asPage.status).toBe(status);
  expect(asPage.headers["content-type"]).toBe("text/html; charset=utf-8");
  expect(asPage.body).toContain(name);
  expect(await ask({ method: "HEAD" })).toMatchObject({ status, body: "" });
});

test("a client that sends a large body to a sandbox that is not there sees the refusal", async () => {
  const connect = async () => {
    throw new SandkeepError("gone", "Cannot: no");
  };
  const ask = await asking({ routes: { connect } });
  expect(await ask({ method: "POST", body: Buffer.alloc(8 << 20) })).toMatchObject({ status: 410 });
});

test("hosts that are not one label below the domain lead to no sandbox", async () => {
  const asked: string[] = [];
  const { ingress } = await serving({
    routes: {
      async connect(subdomain) {
        asked.push(subdomain);
        throw new SandkeepError("not-found", "Cannot: no");
      },
    },
    ownHosts: () => ["api.localhost"],
  });
  expect(ingress.matches({ headers: { host: "sb-1.localhost" } })).toBe(true);
  expect(ingress.matches({ headers: { host: "SB-1.Localhost.:80" } })).toBe(true);
  expect(ingress.matches({ headers: { host: "a.b.localhost" } })).toBe(true);
  for (const other of [
    "localhost",
    "localhost:1",
    "api.localhost:7700",
    "127.0.0.1",
    "[::1]:80",
    "sb-1.localhost.evil.com",
    "",
    undefined,
  ])
    expect(ingress.matches({ headers: { host: other } }), String(other)).toBe(false);
});

test("40 MB go up and 40 MB come down unchanged", async () => {
  const body = Buffer.alloc(40 << 20, "0123456789abcdef!");
  const ask = await asking({ app: (req, res) => void req.pipe(res) });
  const answer = await ask({ method: "POST", body });
  expect(digest(answer.bytes)).toBe(digest(body));
});

test("a client that does not read holds the program back instead of filling the daemon's memory", async () => {
  let sent = 0;
  const block = Buffer.alloc(1 << 20);
  const { port } = await serving({
    app: (_req, res) => {
      const more = () => {
        do sent += block.length;
        while (res.write(block));
      };
      res.on("drain", more);
      more();
    },
  });
  const client = connect(port, "127.0.0.1").pause();
  onTestFinished(() => void client.destroy());
  client.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  await eventually("the stream has begun", () => sent > 0);
  let before = -1;
  await eventually(
    "nothing more is sent",
    () => {
      const still = sent === before;
      before = sent;
      return still;
    },
    { everyMs: 300 },
  );
  expect(sent).toBeLessThan(64 << 20);
});

test("events arrive while the program is still sending", async () => {
  const seen = Promise.withResolvers<void>();
  const { port } = await serving({
    app: async (_req, res) => {
      res.writeHead(200, { "content-type": "text/event-stream" });
      res.write("data: 1\n\n");
      await seen.promise;
      res.end("data: 2\n\n");
    },
  });
  const answer = await response(get({ port, headers: { host } }));
  expect(String((await once(answer, "data"))[0])).toBe("data: 1\n\n");
  seen.resolve();
  expect(await text(answer)).toBe("data: 2\n\n");
});

test("the headers of an answer arrive before there is any body", async () => {
  const { port } = await serving({ app: (_req, res) => res.writeHead(200, { "x-here": "1" }).flushHeaders() });
  const answer = await response(get({ port, headers: { host } }));
  onTestFinished(() => void answer.destroy());
  expect(answer.headers["x-here"]).toBe("1");
});

test("trailers come after the body", async () => {
  const { port } = await serving({
    app: (_req, res) => {
      res.writeHead(200, { trailer: "X-Sum" });
      res.write("body");
      res.addTrailers({ "X-Sum": "42" });
      res.end();
    },
  });
  const answer = await response(get({ port, headers: { host } }));
  expect(await text(answer)).toBe("body");
  expect(answer.trailers).toEqual({ "x-sum": "42" });
});

test("a client that goes away closes the program's connection", async () => {
  const closed = Promise.withResolvers<void>();
  const { port } = await serving({
    app: (req, res) => {
      req.socket.once("close", () => closed.resolve());
      res.write("first");
    },
  });
  const answer = await response(get({ port, headers: { host } }));
  answer.destroy();
  await closed.promise;
});

test("an answer that is cut short is cut short for the client too", async () => {
  const ask = await asking({
    app: (_req, res) => {
      res.writeHead(200, { "content-length": "1000" });
      res.write("only this", () => res.socket?.destroy());
    },
  });
  await expect(ask()).rejects.toThrow(/aborted|terminated/);
});

test("an answer that comes before the request was read is the client's answer", async () => {
  const ask = await asking({
    app: (_req, res) => {
      res.writeHead(413);
      res.end("too large");
    },
  });
  expect(await ask({ method: "POST", body: Buffer.alloc(16 << 20) })).toMatchObject({ status: 413, body: "too large" });
});

test.each([
  ["closes without a word", ""],
  ["speaks something else", "SSH-2.0-OpenSSH_9.2\r\n"],
  ["sends headers without end", `HTTP/1.1 200 OK\r\nX: ${"x".repeat(100_000)}`],
  ["switches protocols unasked", "HTTP/1.1 101 Hm\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"],
  ["switches protocols without a name", "HTTP/1.1 101 Hm\r\n\r\n"],
])("a program that %s is a bad answer", async (_what, words) => {
  const { port } = await serving({ tcp: (socket) => void socket.once("data", () => socket.end(words)) });
  const answer = await read(get({ port, headers: { host } }));
  expect(answer.status).toBe(502);
  expect(JSON.parse(answer.body).error.code).toBe("SANDBOX_BAD_ANSWER");
});

test("a client that stops in the middle of its body is cut off, one whose sandbox is slow is not", async () => {
  const slow = Promise.withResolvers<void>();
  const { port } = await serving({
    pause: 3000,
    app: async (req, res) => {
      if (req.url === "/slow") await slow.promise;
      res.end(String((await text(req).catch(() => "")).length));
    },
  });
  const stalled = request({ port, method: "POST", headers: { host, "content-length": "100" } });
  stalled.write("only this");
  expect((await response(stalled)).statusCode).toBe(408);
  stalled.destroy();

  const large = request({ port, path: "/slow", method: "POST", headers: { host } });
  large.end("x".repeat(30 << 20));
  // Longer than a client may pause: it is the sandbox that does.
  await pause(7500);
  slow.resolve();
  expect(await read(large)).toMatchObject({ status: 200, body: String(30 << 20) });
});

test("a sandbox that never accepts is given up", async () => {
  const ask = await asking({ routes: { connect: () => new Promise(() => undefined) }, patience: 50 });
  expect((await ask()).status).toBe(502);
});

test("one sandbox has so many connections and no more, and they come back", async () => {
  let answer = () => {};
  const { port } = await serving({
    connections: 1,
    app: (_req, res) => {
      answer = () => res.end("done");
      res.write("…");
    },
  });
  const first = await response(get({ port, headers: { host } }));
  expect((await read(get({ port, headers: { host } }))).status).toBe(503);
  answer();
  await text(first);
  const again = await eventually("the place is free", async () => {
    const next = await response(get({ port, headers: { host } }));
    answer();
    await text(next);
    return next.statusCode === 200 && next;
  });
  expect(again.statusCode).toBe(200);
});

test("the connections of a sandbox count together, whatever its ports are called", async () => {
  const target = await listening(createServer((_req, res) => void res.write("…")));
  const { port } = await serving({
    connections: 1,
    routes: {
      connect: async (name) => ({
        port: { sandbox: name.endsWith("i2") ? "i2" : "i1", isPrivate: false, host: undefined },
        open: async () => connect(target, "127.0.0.1"),
      }),
    },
  });
  const ask = (name: string) => response(get({ port, headers: { host: `${name}.localhost` } }));
  expect((await ask("80-i1")).statusCode).toBe(200);
  for (const name of ["80-i1", "81-i1", "sb-other"]) expect((await ask(name)).statusCode).toBe(503);
  expect((await ask("80-i2")).statusCode).toBe(200);
});

test("requests after one another on one client connection go each to its own sandbox", async () => {
  const apps = await Promise.all(["one", "two"].map((name) => listening(createServer((_req, res) => res.end(name)))));
  const { port } = await serving({
    routes: {
      connect: async (subdomain) => ({
        open: async () => connect(subdomain === "one" ? (apps[0] ?? 0) : (apps[1] ?? 0), "127.0.0.1"),
      }),
    },
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  const bodies = [];
  for (const name of ["one", "two", "one"])
    bodies.push((await read(get({ port, agent, headers: { host: `${name}.localhost` } }))).body);
  expect(bodies).toEqual(["one", "two", "one"]);
});

test("a private port is opened to those who show its sandbox's token, which the program never sees", async () => {
  const opened: string[] = [];
  const inside = createServer((req, res) => res.end(JSON.stringify(req.headers)));
  const target = await listening(inside);
  const ask = await asking({
    routes: {
      connect: async (name) => ({
        port: { sandbox: "i1", isPrivate: true, host: "masked:80" },
        open: async () => {
          opened.push(name);
          return connect(target, "127.0.0.1");
        },
      }),
    },
    ports: {
      portOf: ({ "x-port": port }) => (typeof port === "string" ? `${port}-i1` : undefined),
      tokenHeader: "x-token",
      isToken: (sandbox, token) => sandbox === "i1" && token === "right",
    },
  });
  for (const headers of [{}, { "x-token": "wrong" }]) {
    expect(await ask({ headers })).toMatchObject({ status: 403, body: expect.stringContaining("SANDBOX_PRIVATE") });
  }
  expect(opened).toEqual([]);
  const seen = JSON.parse((await ask({ headers: { "x-token": "right" } })).body);
  expect(seen).toMatchObject({ host: "masked:80", "x-forwarded-host": host });
  expect(seen).not.toHaveProperty("x-token");
  // A header may name the port in place of the host.
  expect((await ask({ headers: { host: "127.0.0.1", "x-port": "8080", "x-token": "right" } })).status).toBe(200);
  expect(opened).toEqual(["sb-web", "8080-i1"]);
});

test("a dialect may refuse a request to a port before it is opened, and keep headers from its program", async () => {
  const asked: (string | undefined)[] = [];
  const ask = await asking({
    app: (req, res) => res.end(JSON.stringify(req.headers)),
    ports: {
      portOf: () => undefined,
      tokenHeader: "x-token",
      isToken: () => false,
      ready: async (port, { url, headers }) => {
        asked.push(port, url);
        if (headers["x-key"] !== "right") return { refusal: { status: 401, message: "Cannot enter: no key" } };
        return { dropped: ["x-key"] };
      },
    },
  });
  const refused = await ask({ path: "/run?a=b" });
  expect(refused).toMatchObject({ status: 401, body: expect.stringContaining("Cannot enter: no key") });
  const seen = JSON.parse((await ask({ headers: { "x-key": "right", "x-token": "t", "x-other": "o" } })).body);
  expect(seen).toMatchObject({ "x-other": "o" });
  for (const name of ["x-key", "x-token"]) expect(seen).not.toHaveProperty(name);
  expect(asked).toEqual(["sb-web", "/run?a=b", "sb-web", "/"]);
});

test("answers before the answer are passed over, and a program that sends nothing else is given up", async () => {
  let hints = 16;
  let isOver = false;
  const ask = await asking({
    tcp: (socket) => {
      socket.on("close", () => {
        isOver = true;
      });
      const hint = () => {
        while (hints > 0 && !socket.destroyed) {
          hints--;
          if (!socket.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")) return void socket.once("drain", hint);
        }
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
      };
      socket.once("data", hint);
    },
  });
  expect(await ask()).toMatchObject({ status: 200, body: "hi" });
  [hints, isOver] = [Number.POSITIVE_INFINITY, false];
  expect(await ask()).toMatchObject({ status: 502 });
  await eventually("the connection to the program is closed", () => isOver);
});
