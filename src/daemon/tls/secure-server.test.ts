/** TLS on one port with HTTP/1.1, HTTP/2, WebSockets and plain HTTP, with real clients over loopback. */

import { once } from "node:events";
import { copyFile, readFile, rename } from "node:fs/promises";
import {
  createServer,
  type IncomingMessage,
  request as plainRequest,
  type RequestListener,
  type Server,
} from "node:http";
import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2, constants } from "node:http2";
import { request } from "node:https";
import type { AddressInfo } from "node:net";
import { buffer, text } from "node:stream/consumers";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../../../test/harness/harness.ts";
import { type CertificateFiles, certificateFor } from "../../../test/harness/network/certificate.ts";
import { frame } from "../../../test/harness/network/http2-frame.ts";
import { pairs } from "../../base/http-headers.ts";
import { tlsIdentityOf } from "../../config/tls-settings.ts";
import { closeServer } from "../listening.ts";
import { CertificateWatch } from "./certificate-watch.ts";
import { answerPlain, isPlain, SecureServer } from "./secure-server.ts";

interface Secure {
  server: Server;
  secure: SecureServer;
  port: number;
  ca: Buffer;
  files: CertificateFiles;
}

async function serve(listener: RequestListener): Promise<Secure> {
  const files = await certificateFor(["DNS:localhost", "DNS:*.test.localhost"]);
  const server = createServer(listener);
  const secure = new SecureServer(server, identityIn(files), listener);
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => closeServer(secure, Promise.resolve()));
  const { port } = server.address() as AddressInfo;
  return { server, secure, port, ca: await readFile(files.ca), files };
}

function identityIn({ cert, key }: CertificateFiles) {
  const identity = tlsIdentityOf({ tlsCert: cert, tlsKey: key });
  if (!identity) throw new Error("There is no certificate");
  return identity;
}

function http2({ port, ca }: Secure): ClientHttp2Session {
  const session = connectHttp2(`https://localhost:${port}`, { ca });
  session.on("error", () => undefined);
  onTestFinished(() => session.destroy());
  return session;
}

async function http1({ port, ca }: Secure, path: string, body = ""): Promise<[number | undefined, string]> {
  const sent = request({ host: "localhost", port, path, ca, method: body ? "POST" : "GET", agent: false });
  sent.end(body);
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  return [answer.statusCode, await text(answer)];
}

async function answerTo(stream: ClientHttp2Stream): Promise<[number | undefined, string]> {
  const [headers] = await once(stream, "response");
  return [headers[":status"], await text(stream)];
}

/** prints what a listener sees of a request */
const echo: RequestListener = async (incoming, response) => {
  const body = await text(incoming);
  const { method, url, headers, rawHeaders, httpVersion, socket } = incoming;
  const encrypted = "encrypted" in socket && socket.encrypted;
  const { host, cookie, "transfer-encoding": encoding } = headers;
  const head = [
    ["Set-Cookie", "a=1"],
    ["Set-Cookie", "b=2"],
    ["Connection", "close"],
  ].flat();
  response.writeHead(200, "Fine", head);
  response.end(JSON.stringify({ method, url, host, cookie, encoding, rawHeaders, httpVersion, encrypted, body }));
};

test("HTTP/1.1 and HTTP/2 requests look the same to a listener", async () => {
  const secure = await serve(echo);
  const [status, one] = await http1(secure, "/a?b", "hello");
  expect([status, JSON.parse(one)]).toMatchObject([200, { httpVersion: "1.1", encrypted: true, body: "hello" }]);
  const session = http2(secure);
  const headers = { ":method": "POST", ":path": "/a?b", ":authority": "3000-x.localhost", cookie: ["a=1", "b=2"] };
  const stream = session.request(headers);
  stream.end("hello");
  const [answer] = await once(stream, "response");
  expect(answer).toMatchObject({ ":status": 200, "set-cookie": ["a=1", "b=2"] });
  expect(answer).not.toHaveProperty("connection");
  expect(JSON.parse(await text(stream))).toEqual({
    ...{ method: "POST", url: "/a?b", host: "3000-x.localhost", cookie: "a=1; b=2", encoding: "chunked" },
    ...{ rawHeaders: ["host", "3000-x.localhost", "cookie", "a=1; b=2"], httpVersion: "2.0", encrypted: true },
    body: "hello",
  });
  const bare = JSON.parse((await answerTo(session.request({ ":path": "/" })))[1]);
  expect(bare).toMatchObject({ method: "GET", body: "", host: `localhost:${secure.port}` });
  expect(bare).not.toHaveProperty("encoding");
});

test("a request that names two hosts over HTTP/2 still shows both", async () => {
  const secure = await serve(echo);
  const stream = http2(secure).request({ ":path": "/", ":authority": "a.localhost", host: "b.localhost" });
  const { rawHeaders } = JSON.parse((await answerTo(stream))[1]);
  expect(rawHeaders).toEqual(["host", "a.localhost", "host", "b.localhost"]);
});

test("20 MB pass both ways over HTTP/2, never faster than they are read", async () => {
  const piece = Buffer.alloc(1 << 20, "x");
  const secure = await serve((incoming, response) => void incoming.pipe(response));
  const stream = http2(secure).request({ ":method": "POST", ":path": "/" });
  let sent = 0;
  // As long as no one reads the answer, the connection takes only what its buffers hold.
  for (let isTaken = true; isTaken && sent < 20; sent++) {
    const pause = new Promise<boolean>((resolve) => setTimeout(resolve, 300, false));
    isTaken = stream.write(piece) || (await Promise.race([once(stream, "drain").then(() => true), pause]));
  }
  expect(sent).toBeLessThan(20);
  const received = buffer(stream);
  for (; sent < 20; sent++) if (!stream.write(piece)) await once(stream, "drain");
  stream.end();
  expect((await received).length).toBe(20 * piece.length);
});

test.each(["cancelled", "gone"])(
  "a body that breaks off does not look whole over HTTP/2, either way: %s",
  async (how) => {
    const seen = Promise.withResolvers<string>();
    const begun = Promise.withResolvers<void>();
    const secure = await serve((incoming, response) => {
      if (incoming.method === "GET") {
        response.writeHead(200).write("half");
        response.flushHeaders();
        setImmediate(() => response.destroy());
      } else {
        incoming.once("data", () => begun.resolve());
        text(incoming).then(
          (body) => seen.resolve(`whole: ${body}`),
          (error) => seen.resolve(error.message),
        );
      }
    });
    const session = http2(secure);
    await expect(text(session.request({ ":path": "/" }))).rejects.toThrow("NGHTTP2_INTERNAL_ERROR");
    const upload = await rawHttp2(secure);
    upload.write(Buffer.concat([frame(1, 4, 1, headOf("POST")), frame(0, 0, 1, Buffer.from("half"))]));
    await begun.promise;
    if (how === "cancelled") upload.write(frame(3, 0, 1, cancel));
    else upload.destroy();
    expect(await seen.promise).not.toMatch(/^whole/);
  },
);

test("an answer without reading its request's body arrives, and the stream then ends", async () => {
  const secure = await serve((_incoming, response) => void response.writeHead(413).end("too long"));
  const stream = http2(secure).request({ ":method": "POST", ":path": "/" });
  stream.on("error", () => undefined);
  stream.write(Buffer.alloc(1 << 20));
  expect(await answerTo(stream)).toEqual([413, "too long"]);
  await once(stream, "close");
  expect(stream.rstCode).toBe(constants.NGHTTP2_NO_ERROR);
});

test("trailers of a listener for HTTP/1.1 arrive over HTTP/2", async () => {
  const secure = await serve((_incoming, response) => {
    response.writeHead(200, { trailer: "x-end" });
    response.write("a");
    response.addTrailers([["X-End", "1"]]);
    response.end();
  });
  const stream = http2(secure).request({ ":path": "/" });
  const trailers = once(stream, "trailers");
  await text(stream);
  expect((await trailers)[0]).toMatchObject({ "x-end": "1" });
});

test("a client that cancels requests without end loses its connection, and others do not notice", async () => {
  const secure = await serve((_incoming, response) => void setTimeout(() => response.end("late"), 5).unref());
  const other = http2(secure);
  const hostile = await rawHttp2(secure);
  const cancelled = (stream: number) => [frame(1, 5, stream, headOf("GET")), frame(3, 0, stream, cancel)];
  for (let i = 0; i < 2000; i++) hostile.write(Buffer.concat(cancelled(2 * i + 1)));
  hostile.resume();
  await once(hostile, "close");
  expect(await answerTo(other.request({ ":path": "/" }))).toEqual([200, "late"]);
});

test("headers that are too long cost a request, and more requests at once than allowed wait", async () => {
  const open: (() => void)[] = [];
  const secure = await serve((_incoming, response) => void open.push(() => response.end("ok")));
  const session = http2(secure);
  const long = session.request({ ":path": "/", "x-long": "a".repeat(30_000) });
  expect(await answerTo(long)).toEqual([431, expect.stringContaining("its headers are too long")]);
  const answers = Array.from({ length: 120 }, () => answerTo(session.request({ ":path": "/" })));
  await eventually("as many as are allowed have begun", () => open.length === 100);
  for (const answer of open.splice(0)) answer();
  await eventually("the others have begun", () => open.length === 20);
  for (const answer of open) answer();
  expect(new Set((await Promise.all(answers)).map(([status]) => status))).toEqual(new Set([200]));
});

test("another protocol begins over TLS as it does without", async () => {
  const secure = await serve(echo);
  secure.server.on("upgrade", (_request, socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    socket.pipe(socket);
  });
  const socket = await tlsTo(secure);
  socket.write("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
  expect(String((await once(socket, "data"))[0])).toContain("101 Switching Protocols");
  socket.write("hello");
  expect(String((await once(socket, "data"))[0])).toBe("hello");
  socket.destroy();
});

test("plain HTTP is told to use HTTPS: a program by an error, a browser by a redirect", async () => {
  const secure = await serve((incoming, response) => {
    if (isPlain(incoming)) answerPlain(incoming, response, "https://daemon.example");
    else echo(incoming, response);
  });
  const ask = async (headers: Record<string, string>) => {
    const sent = plainRequest({ host: "127.0.0.1", port: secure.port, path: "/x?y", headers, agent: false });
    const [answer] = (await once(sent.end(), "response")) as [IncomingMessage];
    return [answer.statusCode, answer.headers.location, await text(answer)];
  };
  const message = "Cannot answer plain HTTP: this daemon serves HTTPS. Use https://a.localhost:7700";
  expect(await ask({ host: "a.localhost:7700", authorization: "Bearer key" })).toEqual([
    ...[400, undefined, JSON.stringify({ error: { code: "https_required", message } })],
  ]);
  const browser = { accept: "text/html,*/*" };
  expect(await ask({ host: "a.localhost:7700", ...browser })).toEqual([308, "https://a.localhost:7700/x?y", ""]);
  expect(await ask({ host: "a b", ...browser })).toEqual([308, "https://daemon.example/x?y", ""]);
});

test("a renewed certificate is served to new connections, and a bad pair changes nothing", async () => {
  const secure = await serve(echo);
  const next = await certificateFor(["DNS:*.test.localhost"]);
  const warnings: string[] = [];
  const places = { tlsCert: secure.files.cert, tlsKey: secure.files.key };
  const watch = new CertificateWatch({
    ...{ places, interval: 10, warn: (sentence) => void warnings.push(sentence) },
    read: () => tlsIdentityOf(places),
    renew: (identity) => secure.secure.renew(identity),
  });
  onTestFinished(() => watch.close());
  const before = await tlsTo(secure);
  const serial = (socket: TLSSocket) => socket.getPeerCertificate().serialNumber;
  await replace(secure.files.cert, next.cert);
  await eventually("it was noticed", () => warnings.length > 0);
  expect(warnings).toEqual([
    `Cannot use SANDKEEP_TLS_KEY "${secure.files.key}": it is not the key of the certificate in "${secure.files.cert}". The daemon goes on with the certificate that it has`,
  ]);
  expect(serial(await tlsTo(secure))).toBe(serial(before));
  await replace(secure.files.key, next.key);
  const ca = await readFile(next.ca);
  await eventually("it is served", async () => {
    const socket = await tlsTo({ ...secure, ca }, "a.test.localhost").catch(() => undefined);
    return socket !== undefined && serial(socket) !== serial(before);
  });
  expect(warnings).toHaveLength(1);
});

test("a server that closes lets HTTP/2 requests finish, and opens no new ones", async () => {
  const begun = Promise.withResolvers<() => void>();
  const secure = await serve((_incoming, response) => begun.resolve(() => response.end("done")));
  const session = http2(secure);
  const answer = answerTo(session.request({ ":path": "/" }));
  const finish = await begun.promise;
  const idle = await tlsTo(secure);
  const settled = Promise.withResolvers<void>();
  const closing = closeServer(secure.secure, settled.promise);
  await once(session, "goaway");
  finish();
  expect(await answer).toEqual([200, "done"]);
  settled.resolve();
  await closing;
  await eventually("all connections are closed", () => idle.destroyed || idle.readableEnded);
});

/** puts a copy of another file in a file's place at once: the daemon may read it at any time, and never half of it */
async function replace(path: string, source: string): Promise<void> {
  await copyFile(source, `${path}.new`);
  await rename(`${path}.new`, path);
}

async function tlsTo({ port, ca }: Secure, servername = "localhost", protocols: string[] = []): Promise<TLSSocket> {
  const socket = connectTls({ host: "127.0.0.1", port, ca, servername, ALPNProtocols: protocols });
  onTestFinished(() => void socket.destroy());
  await once(socket, "secureConnect");
  socket.on("error", () => undefined);
  return socket;
}

/** the code of RST_STREAM for a request that its client gives up */
const cancel = Buffer.of(0, 0, 0, constants.NGHTTP2_CANCEL);

/** a request for https://localhost/ in HPACK, mostly from its static table */
function headOf(method: "GET" | "POST"): Buffer {
  const authority = Buffer.from("localhost");
  return Buffer.concat([Buffer.of(method === "GET" ? 0x82 : 0x83, 0x84, 0x87, 0x01, authority.length), authority]);
}

/** a connection for hand-made frames, after its first ones */
async function rawHttp2(secure: Secure): Promise<TLSSocket> {
  const socket = await tlsTo(secure, "localhost", ["h2"]);
  socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  socket.write(frame(4, 0, 0, Buffer.alloc(0)));
  return socket;
}

test("headers that only HTTP/1.1 lets through leave an answer over HTTP/2 as it is, and never throw", async () => {
  const secure = await serve((_incoming, response) => {
    const headers = ["ETag", "a", "ETag", "b", "HTTP2-Settings", "x", "constructor", "c", "X-Two", "1", "X-Two", "2"];
    response.writeHead(200, "OK", headers);
    response.flushHeaders();
    const trailers = ["HTTP2-Settings", "a", "constructor", "d", "ETag", "e", "ETag", "f"];
    response.addTrailers(pairs(trailers));
    response.end("hi");
  });
  const stream = http2(secure).request({ ":path": "/" });
  const [answer, trailers] = [once(stream, "response"), once(stream, "trailers")];
  const [headers] = await answer;
  expect({ ...headers }).toMatchObject({ ":status": 200, etag: "a", constructor: "c", "x-two": "1, 2" });
  expect(await text(stream)).toBe("hi");
  expect({ ...(await trailers)[0] }).toMatchObject({ constructor: "d", etag: "e" });
});
