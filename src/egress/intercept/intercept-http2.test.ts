/** What a program sees of a host with rules over HTTP/2, whether the host itself speaks it or not. */

import { type ClientHttp2Session, type ClientHttp2Stream, constants, type OutgoingHttpHeaders } from "node:http2";
import { describe, expect, test } from "vitest";
import { eventually } from "../../../test/harness/harness.ts";
import { host, http1Server, http2, http2Server, open, tls } from "../../../test/internet/interception.ts";
import type { RequestRule } from "../../core/network/network-policy.ts";

const inject: RequestRule = { action: { kind: "set-headers", headers: { Authorization: "Bearer s3cr3t" } } };

interface Reply {
  headers: Record<string, unknown>;
  trailers: Record<string, unknown>;
  body: string;
  /** the code that the stream ended with */
  code: number;
}

async function ask(session: ClientHttp2Session, headers: OutgoingHttpHeaders = {}, body?: string): Promise<Reply> {
  const stream = session.request({ ":path": "/", ":authority": host, ...headers }, { endStream: body === undefined });
  if (body !== undefined) stream.end(body);
  return replyTo(stream);
}

async function replyTo(stream: ClientHttp2Stream): Promise<Reply> {
  const reply: Reply = { headers: {}, trailers: {}, body: "", code: 0 };
  stream.on("response", (headers) => Object.assign(reply.headers, headers));
  stream.on("trailers", (trailers) => Object.assign(reply.trailers, trailers));
  stream.on("data", (chunk: Buffer) => {
    reply.body += chunk;
  });
  stream.on("error", () => undefined);
  await new Promise((resolve) => stream.once("close", resolve));
  reply.code = stream.rstCode ?? 0;
  return reply;
}

/** answers with what it was asked, over either version */
async function echoes() {
  const second = await http2Server();
  second.server.on("stream", (stream, headers) => {
    stream.respond({ ":status": 200, "set-cookie": ["a=1", "b=2"] });
    const chunks: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => stream.end(JSON.stringify({ ...headers, body: Buffer.concat(chunks).toString() })));
  });
  const first = await http1Server((message, response) => {
    void message.toArray().then((chunks) => {
      const { headers, method, url } = message;
      const body = Buffer.concat(chunks).toString();
      response.setHeader("set-cookie", ["a=1", "b=2"]);
      response.end(JSON.stringify({ ...headers, ":method": method, ":path": url, ":authority": headers.host, body }));
    });
  });
  return { second, first };
}

describe.each(["second", "first"] as const)("to a host of HTTP's %s version", (version) => {
  test("headers are set, cookies and bodies pass, many requests share connections", async () => {
    const { port } = (await echoes())[version];
    const door = await open(port, [inject]);
    const session = await http2(door);
    const asked = Array.from({ length: 20 }, (_, i) =>
      ask(session, { ":method": "POST", ":path": `/${i}`, authorization: "mine", cookie: ["x=1", "y=2"] }, `body ${i}`),
    );
    for (const [i, reply] of (await Promise.all(asked)).entries()) {
      expect(reply.headers).toMatchObject({ ":status": 200, "set-cookie": ["a=1", "b=2"] });
      expect(JSON.parse(reply.body)).toMatchObject({
        ":method": "POST",
        ":path": `/${i}`,
        ":authority": host,
        authorization: "Bearer s3cr3t",
        cookie: "x=1; y=2",
        body: `body ${i}`,
      });
    }
    if (version === "second") expect(door.connections()).toBe(1);
    expect(door.seen).toHaveLength(20);
  });

  test("a request without a body stays one", async () => {
    const { port } = (await echoes())[version];
    const { body } = await ask(await http2(await open(port, [])), { ":method": "POST" });
    const { "content-length": length = "0", "transfer-encoding": encoding = "none" } = JSON.parse(body);
    expect({ length, encoding }).toEqual({ length: "0", encoding: "none" });
  });
});

test("another host's requests are refused, and the connection goes on", async () => {
  const { port } = (await echoes()).second;
  const session = await http2(await open(port, [inject]));
  const reply = await ask(session, { ":authority": "other.test" });
  expect(reply.headers[":status"]).toBe(421);
  expect(reply.body).toContain('Cannot send a request for "other.test"');
  expect((await ask(session, { host: "other.test", ":authority": host })).headers[":status"]).toBe(400);
  expect((await ask(session)).headers[":status"]).toBe(200);
});

test("fixed answers need nobody", async () => {
  const door = await open(1, [{ action: { kind: "respond", status: 201, body: "made", contentType: "text/plain" } }]);
  const reply = await ask(await http2(door), { ":method": "PUT" }, "x".repeat(100_000));
  expect(reply).toMatchObject({ headers: { ":status": 201, "content-type": "text/plain" }, body: "made" });
});

test("a host that cannot be reached is told", async () => {
  const reply = await ask(await http2(await open(1, [inject])));
  expect(reply.headers[":status"]).toBe(502);
  expect(reply.body).toMatch(/Cannot reach "api.test": .*ECONNREFUSED/);
});

test("trailers and streams pass both ways, as gRPC needs them", async () => {
  const { port, server } = await http2Server();
  server.on("stream", (stream, headers) => {
    stream.respond(
      { ":status": 200, "content-type": "application/grpc", "x-te": headers.te },
      { waitForTrailers: true },
    );
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0", "grpc-message": "" }));
    stream.pipe(stream);
  });
  const session = await http2(await open(port, [inject]));
  const stream = session.request({
    ":method": "POST",
    ":path": "/svc/m",
    te: "trailers",
    "content-type": "application/grpc",
  });
  const reply = replyTo(stream);
  for (const word of ["one", "two"]) {
    stream.write(word);
    await new Promise((resolve) => stream.once("data", resolve));
  }
  stream.end();
  expect(await reply).toMatchObject({
    headers: { "content-type": "application/grpc", "x-te": "trailers" },
    trailers: { "grpc-status": "0", "grpc-message": "" },
    body: "onetwo",
    code: constants.NGHTTP2_NO_ERROR,
  });
});

test("an answer without a body may have trailers alone", async () => {
  const { port, server } = await http2Server();
  server.on("stream", (stream) => stream.respond({ ":status": 200, "grpc-status": "5" }, { endStream: true }));
  const reply = await ask(await http2(await open(port, [inject])), { ":method": "POST" }, "x");
  expect(reply).toMatchObject({ headers: { ":status": 200, "grpc-status": "5" }, body: "", code: 0 });
});

describe("resets pass", () => {
  test.each([
    ["before the answer", false, constants.NGHTTP2_REFUSED_STREAM],
    ["in the middle of the answer", true, constants.NGHTTP2_ENHANCE_YOUR_CALM],
  ])("from the host, %s", async (_when, answered, code) => {
    const { port, server } = await http2Server();
    server.on("stream", (stream) => {
      if (answered) stream.respond({ ":status": 200 }, { waitForTrailers: true });
      if (answered) stream.write("half");
      setTimeout(() => stream.close(code), 20);
    });
    const session = await http2(await open(port, [inject]));
    expect((await ask(session)).code).toBe(code);
    expect(session.destroyed).toBe(false);
  });

  test("from the program", async () => {
    const { port, server } = await http2Server();
    let code: number | undefined;
    server.on("stream", (stream) => {
      stream.respond({ ":status": 200 });
      stream.write("first");
      stream.once("close", () => {
        code = stream.rstCode;
      });
    });
    const session = await http2(await open(port, [inject]));
    const stream = session.request({ ":path": "/" });
    stream.once("data", () => stream.close(constants.NGHTTP2_CANCEL));
    await eventually("the host is told", () => code === constants.NGHTTP2_CANCEL);
  });

  test("a host that goes away cuts its answers off", async () => {
    const { port } = await http1Server((_message, response) => {
      response.writeHead(200, { "content-length": "100" }).write("half");
      setTimeout(() => response.socket?.destroy(), 20);
    });
    const reply = await ask(await http2(await open(port, [inject])));
    expect(reply).toMatchObject({ body: "half", code: constants.NGHTTP2_INTERNAL_ERROR });
  });
});

test("an early answer arrives while the body is still on its way", async () => {
  const { port, server } = await http2Server();
  server.on("stream", (stream) => {
    stream.respond({ ":status": 413 });
    stream.end("enough");
  });
  const session = await http2(await open(port, [inject]));
  const stream = session.request({ ":method": "POST", ":path": "/" });
  const timer = setInterval(() => stream.write("x".repeat(10_000)), 1);
  const reply = await new Promise<unknown>((resolve) =>
    stream.once("response", (headers) => resolve(headers[":status"])),
  );
  clearInterval(timer);
  stream.close();
  expect(reply).toBe(413);
});

test("a host that says goodbye is connected to again", async () => {
  const { port, server } = await http2Server();
  server.on("stream", (stream) => {
    stream.respond({ ":status": 200 });
    stream.end("bye");
    stream.session?.close();
  });
  const door = await open(port, [inject]);
  const session = await http2(door);
  expect((await ask(session)).body).toBe("bye");
  await eventually("the next is answered over a new connection", async () => {
    return (await ask(session)).body === "bye" && door.connections() > 1;
  });
});

test("a program that has said everything is let go", async () => {
  const door = await open((await echoes()).second.port, [inject]);
  const socket = await tls(door, { ALPNProtocols: ["h2"] });
  const emptySettings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
  socket.write(Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), emptySettings]));
  await new Promise((resolve) => socket.once("data", resolve));
  expect(door.pending()).toBe(1);
  socket.end();
  await eventually("its connection is closed", () => door.pending() === 0);
});

test("100-continue and hints pass", async () => {
  const { port, server } = await http2Server();
  server.on("stream", (stream) => {
    stream.additionalHeaders({ ":status": 103, link: "</a>" });
    stream.additionalHeaders({ ":status": 100 });
    stream.once("data", () => {
      stream.respond({ ":status": 200 });
      stream.end();
    });
  });
  const session = await http2(await open(port, [inject]));
  const stream = session.request({ ":method": "PUT", ":path": "/", expect: "100-continue" });
  const informed: unknown[] = [];
  stream.on("headers", (headers) => informed.push(headers[":status"]));
  stream.on("continue", () => stream.end("body"));
  expect((await replyTo(stream)).headers[":status"]).toBe(200);
  expect(informed).toEqual([103, 100]);
});

test("a slow reader holds the host back", async () => {
  const { port, server } = await http2Server();
  let written = 0;
  server.on("stream", (stream) => {
    stream.respond({ ":status": 200 });
    const block = Buffer.alloc(64 << 10);
    const more = () => {
      while (written < 64 << 20 && stream.write(block)) written += block.length;
    };
    stream.on("drain", more);
    more();
  });
  const session = await http2(await open(port, [inject]));
  const stream = session.request({ ":path": "/" });
  await new Promise((resolve) => stream.once("response", resolve));
  let before = -1;
  await eventually("the host stops writing", async () => {
    const still = before === written;
    before = written;
    await new Promise((resolve) => setTimeout(resolve, 100));
    return still && before === written;
  });
  expect(written).toBeLessThan(8 << 20);
});
