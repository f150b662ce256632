/** What a program sees of a host with rules over HTTP/1.1, and what the host sees of the program. */

import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { eventually } from "../../../test/harness/harness.ts";
import {
  all,
  ask,
  echo,
  host,
  http1Server,
  open,
  sandboxSpec,
  tls,
  world,
  worldSpec,
} from "../../../test/internet/interception.ts";
import type { AuthoritySpec, RequestRule } from "../../core/network/network-policy.ts";
import { certificateOf, deriveAuthority, openAuthority } from "./authority.ts";

const secret = "Bearer s3cr3t";
const inject: RequestRule = { action: { kind: "set-headers", headers: { Authorization: secret } } };

describe("set-headers", () => {
  test("puts the header in the place of whatever the program said", async () => {
    const door = await open((await echo()).port, [inject]);
    const headers = { host, authorization: "mine", AUTHORIZATION: "also mine", "X-Case": "Kept" };
    const reply = await ask(door, { path: "/a?b=c", headers });
    const { rawHeaders, url } = JSON.parse(reply.body);
    expect(reply).toMatchObject({ status: 200, headers: { "x-server": "yes" } });
    expect(url).toBe("/a?b=c");
    expect(rawHeaders.filter((_: string, at: number) => /^authorization$/i.test(rawHeaders[at - 1]))).toEqual([secret]);
    expect(rawHeaders).toContain("X-Case");
    expect(JSON.stringify(reply.rawHeaders)).not.toContain("s3cr3t");
    expect(door.seen).toMatchObject([
      { method: "GET", path: "/a", status: 200, rule: { index: 0, kind: "set-headers" } },
    ]);
    expect(JSON.stringify(door.seen)).not.toContain("s3cr3t");
  });

  test("leaves a request alone that no rule matches, and takes the first rule that does", async () => {
    const only = (path: string, value: string): RequestRule => ({
      match: { path: { startsWith: path } },
      action: { kind: "set-headers", headers: { "x-rule": value } },
    });
    const door = await open((await echo()).port, [only("/a/b", "1"), only("/a", "2"), only("/a", "3")]);
    const ruled = async (path: string) => JSON.parse((await ask(door, { path })).body).rawHeaders.join(" ");
    expect(await ruled("/a/b")).toContain("x-rule 1");
    expect(await ruled("/a")).toContain("x-rule 2");
    expect(await ruled("/b")).not.toContain("x-rule");
  });
});

describe("what a rule sets, a program cannot unset", () => {
  test("under a name that servers take for the same, or after the body", async () => {
    const rule: RequestRule = { action: { kind: "set-headers", headers: { "X-Key": "owner" } } };
    const { port } = await http1Server((message, response) => {
      message.resume().on("end", () => response.end(JSON.stringify({ ...message.headers, ...message.trailers })));
    });
    const socket = await tls(await open(port, [rule]));
    const head = `POST / HTTP/1.1\r\nHost: ${host}\r\nX_Key: mine\r\nx-key: mine\r\nConnection: close, x-key\r\n`;
    socket.end(`${head}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Key: late\r\nX-Sum: 1\r\nHost: late\r\n\r\n`);
    const received = JSON.parse((await all(socket)).split("\r\n\r\n").at(-1) ?? "");
    expect(received).toMatchObject({ "x-key": "owner", "x-sum": "1", host });
    expect(received).not.toHaveProperty("x_key");
  });

  test("and what mirrors requests is not asked, as it would show what was set", async () => {
    const { port } = await http1Server((message, response) => response.end(message.rawHeaders.join()));
    const door = await open(port, [{ ...inject, match: { path: { startsWith: "/a" } } }]);
    expect(await ask(door, { method: "TRACE", path: "/a" })).toMatchObject({
      status: 405,
      body: "Cannot send TRACE to a host whose rules set headers\n",
    });
    expect((await ask(door, { method: "TRACE", path: "/b" })).status).toBe(200);
  });

  test("and what cannot be sent is told, but not what it is", async () => {
    const rule: RequestRule = { action: { kind: "set-headers", headers: { "X-Key": "sn\u2603w" } } };
    const reply = await ask(await open((await echo()).port, [rule]));
    expect(reply).toMatchObject({ status: 502 });
    expect(reply.body).toBe(`Cannot pass the request on to "${host}": it is not valid (ERR_INVALID_CHAR)\n`);
  });
});

test("a sandbox without a sound authority is cut off, and nobody else", async () => {
  const authority = {
    leafFor() {
      throw new Error("no key");
    },
  };
  const door = await open(1, [inject], { authority });
  await expect(tls(door)).rejects.toThrow();
  expect(door.failures).toEqual([`Cannot serve a connection to "${host}": no key`]);
});

describe("respond", () => {
  test("answers without asking anybody", async () => {
    const rule: RequestRule = {
      action: { kind: "respond", status: 418, headers: { "x-why": "tea" }, body: "short", contentType: "text/plain" },
    };
    const door = await open(1, [rule]);
    const reply = await ask(door, { method: "POST" }, "a body that nobody reads");
    expect(reply).toMatchObject({
      status: 418,
      body: "short",
      headers: { "x-why": "tea", "content-type": "text/plain", "content-length": "5" },
    });
    expect((await ask(door, { method: "HEAD" })).body).toBe("");
    expect(door.connections()).toBe(0);
  });
});

describe("a request for another host", () => {
  test.each([
    ["another Host header", `GET / HTTP/1.1\r\nHost: other.test\r\n\r\n`, 421],
    ["another port", `GET / HTTP/1.1\r\nHost: ${host}:8443\r\n\r\n`, 421],
    ["two Host headers", `GET / HTTP/1.1\r\nHost: ${host}\r\nHost: other.test\r\n\r\n`, 400],
    ["no Host header", "GET / HTTP/1.1\r\n\r\n", 400],
    ["a whole URL", `GET https://other.test/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`, 400],
    ["a tunnel", `CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n`, 405],
    ["a WebSocket", `GET / HTTP/1.1\r\nHost: other.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`, 421],
  ])("is refused: %s", async (_what, text, status) => {
    const { port, server } = await echo();
    let asked = 0;
    server.on("request", () => asked++);
    const socket = await tls(await open(port, [inject]));
    socket.end(text);
    expect(await all(socket)).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(asked).toBe(0);
  });

  test("may name the port that it came to, and the dot at the end of a name", async () => {
    const door = await open((await echo()).port, [inject]);
    for (const named of [`${host}:443`, host.toUpperCase(), `${host}.`]) {
      expect((await ask(door, { headers: { host: named } })).status).toBe(200);
    }
  });
});

describe("what cannot be told apart is refused", () => {
  const chunk = "5\r\nhello\r\n0\r\n\r\n";
  test.each([
    ["two lengths", `Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}`],
    ["two different lengths", "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"],
    ["an encoding that is not the last word", `Transfer-Encoding: chunked, gzip\r\n\r\n${chunk}`],
    ["an encoding before the chunks", `Transfer-Encoding: gzip, chunked\r\n\r\n${chunk}`],
    ["a disguised encoding", `Transfer-Encoding : chunked\r\n\r\n${chunk}`],
    ["a folded header", `X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n`],
    ["a bare line feed", `X-A: b\nContent-Length: 0\r\n\r\n`],
    ["a chunk that is no number", "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"],
  ])("%s", async (_what, rest) => {
    const bodies: string[] = [];
    const { port } = await http1Server((message, response) => {
      message.on("error", () => undefined);
      void message
        .toArray()
        .then((chunks) => bodies.push(Buffer.concat(chunks).toString()))
        .catch(() => undefined)
        .finally(() => response.end());
    });
    const socket = await tls(await open(port, [inject]));
    socket.end(`POST / HTTP/1.1\r\nHost: ${host}\r\n${rest}GET /smuggled HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    expect(await all(socket)).toMatch(/^(HTTP\/1.1 (400|501) |$)/);
    expect(bodies).toEqual([]);
  });

  test("headers about the connection go no further", async () => {
    const door = await open((await echo()).port, []);
    const headers = { host, connection: "x-hop, authorization", "x-hop": "1", authorization: "kept", te: "trailers" };
    const { rawHeaders } = JSON.parse((await ask(door, { headers })).body);
    const sent = Object.fromEntries(
      rawHeaders
        .join("\n")
        .toLowerCase()
        .match(/[^\n]+\n[^\n]+/g)
        .map((pair: string) => pair.split("\n")),
    );
    expect(sent).toMatchObject({ authorization: "kept", te: "trailers" });
    expect(sent).not.toHaveProperty("x-hop");
  });
});

describe("the host's certificate", () => {
  const dayMs = 24 * 60 * 60 * 1000;
  const [past, future] = ["past", "future"].map((name) => deriveAuthority(Buffer.alloc(32, 3), name)) as [
    AuthoritySpec,
    AuthoritySpec,
  ];
  test.each([
    ["has expired", openAuthority(past, () => Date.now() - 30 * dayMs), /certificate has expired/],
    ["is not valid yet", openAuthority(future, () => Date.now() + 30 * dayMs), /not yet valid/],
    ["is signed by somebody else", openAuthority(sandboxSpec), /certificate.*\(UNABLE_TO_VERIFY_LEAF_SIGNATURE\)/],
    ["is another host's", { leafFor: () => world.leafFor("other.test") }, /does not match|altnames/i],
  ])("%s: the program is told so", async (_what, authority, problem) => {
    const { port } = await http1Server((_message, response) => response.end("reached"), authority);
    const roots = [worldSpec, past, future].map(certificateOf);
    const door = await open(port, [inject], { roots });
    const reply = await ask(door);
    expect(reply.status).toBe(502);
    expect(reply.body).toMatch(problem);
    expect(reply.body).toContain(`Cannot reach "${host}": its certificate is not valid`);
    expect(door.seen[0]?.problem).toBe(reply.body.trim());
  });

  test("a host that cannot be connected to is told too", async () => {
    const connect = () => Promise.reject(new Error('"192.0.2.1" is not allowed'));
    const reply = await ask(await open(1, [inject], { connect }));
    expect(reply).toMatchObject({ status: 502, body: `Cannot reach "${host}": "192.0.2.1" is not allowed\n` });
  });
});

test("a host that has proven itself is known the next time, over another connection", async () => {
  const { port, server } = await echo();
  const reused: boolean[] = [];
  server.on("secureConnection", (socket) => reused.push(socket.isSessionReused()));
  const door = await open(port, [inject]);
  for (let i = 0; i < 3; i++) expect((await ask(door)).status).toBe(200);
  expect(reused).toEqual([false, true, true]);
});

describe("connections", () => {
  test("are kept, on both sides, and answers keep the order of pipelined requests", async () => {
    const { port } = await http1Server((message, response) => {
      setTimeout(() => response.end(message.url), message.url === "/1" ? 50 : 0);
    });
    const door = await open(port, [inject]);
    const socket = await tls(door);
    const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
    socket.write(get("/1") + get("/2") + get("/3").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    expect((await all(socket)).match(/(?<=\r\n\r\n)\/\d/g)).toEqual(["/1", "/2", "/3"]);
    expect(door.connections()).toBe(1);
    await eventually("the door has nothing open", () => door.pending() === 0);
  });

  test("end when the host ends them between two requests", async () => {
    const { port, server } = await echo();
    const sockets: Socket[] = [];
    server.on("connection", (socket: Socket) => sockets.push(socket));
    const socket = await tls(await open(port, [inject]));
    socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    await new Promise((resolve) => socket.once("data", resolve));
    sockets[0]?.end();
    await all(socket);
  });

  test("that flood are cut off", async () => {
    const { port } = await http1Server(() => undefined);
    const door = await open(port, [inject]);
    const socket = await tls(door);
    socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`.repeat(1000));
    await all(socket);
    expect(socket.destroyed || socket.readableEnded).toBe(true);
    await eventually("the door has nothing open", () => door.pending() === 0);
  });

  test("are cut off at once when the policy changes", async () => {
    const { port } = await http1Server((_message, response) => void response.write("first"));
    const door = await open(port, [inject]);
    const asked = ask(door);
    await eventually("the answer has begun", () => door.connections() === 1);
    setTimeout(() => door.abort(), 50);
    await expect(asked).rejects.toThrow();
    await eventually("the door has nothing open", () => door.pending() === 0);
  });

  test("that trust somebody else are told of", async () => {
    const door = await open(1, [inject]);
    await expect(tls(door, { ca: certificateOf(worldSpec) })).rejects.toThrow();
    await eventually("the failure is told", () => door.failures.length === 1);
    expect(door.failures[0]).toMatch(/Cannot serve a connection to "api.test": .*does it trust/);
  });
});

test("hints come before the answer", async () => {
  const { port } = await http1Server((_message, response) => {
    response.writeEarlyHints({ link: "</a.css>; rel=preload" });
    response.end("page");
  });
  const socket = await tls(await open(port, [inject]));
  socket.end(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  expect(await all(socket)).toMatch(
    /^HTTP\/1.1 103 Early Hints\r\nlink: <\/a.css>; rel=preload\r\n\r\nHTTP\/1.1 200 OK/i,
  );
});

test("another protocol passes once the host agrees, with the rule's headers", async () => {
  const { port, server } = await echo();
  server.on("upgrade", (message, socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    socket.write(`${message.headers.authorization}\n`);
    socket.pipe(socket);
  });
  const door = await open(port, [inject]);
  const socket = await tls(door);
  let text = "";
  socket.on("data", (chunk: Buffer) => {
    text += chunk;
  });
  socket.write(`GET /ws HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly `);
  await eventually("the first words are echoed", () => text.endsWith("early "));
  socket.write("later");
  await eventually("the next words are echoed", () => text.endsWith("early later"));
  expect(text).toMatch(/^HTTP\/1.1 101 /);
  expect(text).toContain(secret);
  socket.destroy();
  await eventually("the door has nothing open", () => door.pending() === 0);
  expect(door.seen).toMatchObject([{ path: "/ws", status: 101, sent: 11 }]);
});

test.each(["h2c", "websocket, h2c", "WebSocket,H2C", "h2c, websocket", "websocket, h2"])(
  "HTTP/2 in the clear is not offered to the host: %s",
  async (upgrade) => {
    const socket = await tls(await open((await echo()).port, [inject]));
    const upgradeHeaders = `Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: ${upgrade}\r\nHTTP2-Settings: AAMAAABkAAQAAP__`;
    socket.write(`GET /h2c HTTP/1.1\r\nHost: ${host}\r\n${upgradeHeaders}\r\n\r\n`);
    const answer = await all(socket);
    expect(answer).toMatch(/^HTTP\/1.1 200 OK[\s\S]*"url":"\/h2c"/);
    expect(answer).not.toMatch(/upgrade|http2-settings/i);
  },
);

test("a host that does not change the protocol answers as always", async () => {
  const socket = await tls(await open((await echo()).port, [inject]));
  socket.write(`GET /no HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
  expect(await all(socket)).toMatch(/^HTTP\/1.1 200 OK[\s\S]*"url":"\/no"/);
});
