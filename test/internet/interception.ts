/**
 * A host with rules for tests of src/egress/tls, all over loopback: `open()` returns the port that a program in a
 * sandbox would connect to, with `intercept` between it and a server of the test's own.
 */

import { type IncomingMessage, type RequestOptions, request, type ServerResponse } from "node:http";
import {
  type ClientHttp2Session,
  connect as connectHttp2,
  createSecureServer,
  type Http2SecureServer,
} from "node:http2";
import { createServer as createHttps, type Server as HttpsServer } from "node:https";
import { type AddressInfo, connect as connectTcp, createServer, type Server, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from "node:tls";
import { onTestFinished } from "vitest";
import { vercelConventions } from "../../src/api/vercel/conventions.ts";
import type { RequestRule } from "../../src/core/network/network-policy.ts";
import { newTurns } from "../../src/egress/fairness/turns.ts";
import { type Authority, certificateOf, deriveAuthority, openAuthority } from "../../src/egress/intercept/authority.ts";
import { type Interception, intercept, type SeenRequest } from "../../src/egress/intercept/intercept.ts";

export const host = "api.test";

/** the authority that signs the certificates of upstream servers */
export const worldSpec = deriveAuthority(Buffer.alloc(32, 1), "world");
export const world = openAuthority(worldSpec);
/** the authority that the sandbox trusts */
export const sandboxSpec = deriveAuthority(Buffer.alloc(32, 2), "sandbox");
export const sandbox = openAuthority(sandboxSpec);

export interface Door {
  port: number;
  /** the requests that have ended */
  seen: SeenRequest[];
  /** why connections failed before a request */
  failures: string[];
  /** cuts off open connections */
  abort(): void;
  /** connections that `intercept` has not finished with */
  pending(): number;
  /** connections that were made to the server */
  connections(): number;
}

/** between programs and the server on `port` */
export async function open(port: number, rules: RequestRule[], changes: Partial<Interception> = {}): Promise<Door> {
  const abort = new AbortController();
  const seen: SeenRequest[] = [];
  const failures: string[] = [];
  const share = newTurns(() => performance.now()).share();
  let pending = 0;
  let connections = 0;
  const gate = createServer({ allowHalfOpen: true, pauseOnConnect: true }, async (inside) => {
    pending++;
    await intercept({
      inside,
      head: await firstBytes(inside),
      host,
      port: 443,
      rules,
      connect: () => {
        connections++;
        return tcp(port);
      },
      dial: (url) => tcp(Number(url.port)),
      authority: sandbox,
      share,
      costlyFrames: { take: () => true },
      seen: (request) => seen.push(request),
      failed: (problem) => failures.push(problem),
      signal: abort.signal,
      roots: [certificateOf(worldSpec)],
      forwardHeaders: vercelConventions.forwardHeaders,
      ...changes,
    });
    pending--;
  });
  onTestFinished(() => abort.abort());
  return {
    port: await listening(gate),
    seen,
    failures,
    abort: () => abort.abort(),
    pending: () => pending,
    connections: () => connections,
  };
}

/** an upstream server that speaks HTTP/1.1 over TLS */
export async function http1Server(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  authority: Authority = world,
): Promise<{ server: HttpsServer; port: number }> {
  const server = createHttps({ SNICallback: (name, done) => done(null, authority.leafFor(name)) }, answer);
  return { server, port: await listening(server) };
}

/** answers with the request it got */
export function echo() {
  return http1Server((message, response) => {
    response.setHeader("x-server", "yes");
    void message.toArray().then((chunks) => {
      const { method, url, rawHeaders } = message;
      response.end(JSON.stringify({ method, url, rawHeaders, body: Buffer.concat(chunks).toString() }));
    });
  });
}

/** an upstream server that speaks HTTP/2 */
export async function http2Server(): Promise<{ server: Http2SecureServer; port: number }> {
  const server = createSecureServer({ SNICallback: (name, done) => done(null, world.leafFor(name)) });
  server.on("session", (session) => session.on("error", () => undefined));
  server.on("stream", (stream) => stream.on("error", () => undefined));
  return { server, port: await listening(server) };
}

/** a program's TLS connection through `intercept`, trusting only the sandbox's authority */
export function tls(door: Door, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = connectTls({
    host: "127.0.0.1",
    port: door.port,
    servername: host,
    ca: certificateOf(sandboxSpec),
    ALPNProtocols: ["http/1.1"],
    ...options,
  });
  onTestFinished(() => void socket.destroy());
  return new Promise((resolve, reject) => {
    socket.once("secureConnect", () => {
      socket.on("error", () => undefined);
      resolve(socket);
    });
    socket.once("error", reject);
  });
}

export interface Reply {
  status: number;
  headers: IncomingMessage["headers"];
  rawHeaders: string[];
  trailers: IncomingMessage["trailers"];
  body: string;
}

/** one request over a connection of its own, in HTTP/1.1 */
export async function ask(door: Door, options: RequestOptions = {}, body?: string): Promise<Reply> {
  const socket = await tls(door);
  return new Promise((resolve, reject) => {
    const sent = request({ path: "/", headers: { host }, setHost: false, ...options, createConnection: () => socket });
    sent.on("error", reject);
    sent.on("response", (response) => resolve(replyOf(response)));
    sent.end(body);
  });
}

export async function replyOf(response: IncomingMessage): Promise<Reply> {
  const body = Buffer.concat(await response.toArray()).toString();
  const { statusCode = 0, headers, rawHeaders, trailers } = response;
  return { status: statusCode, headers, rawHeaders, trailers, body };
}

/** a program's HTTP/2 session through `intercept` */
export async function http2(door: Door): Promise<ClientHttp2Session> {
  const socket = await tls(door, { ALPNProtocols: ["h2"] });
  const session = connectHttp2(`https://${host}`, { createConnection: () => socket });
  session.on("error", () => undefined);
  onTestFinished(() => session.destroy());
  return session;
}

export async function listening(server: Server | Http2SecureServer): Promise<number> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => sockets.delete(socket));
  });
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

/** everything that arrives until the other side ends or disconnects */
export async function all(socket: Socket): Promise<string> {
  let text = "";
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
  });
  await new Promise((resolve) => socket.once("end", resolve).once("close", resolve));
  return text;
}

function tcp(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connectTcp({ host: "127.0.0.1", port, allowHalfOpen: true });
    socket.once("connect", () => resolve(socket));
    socket.once("error", reject);
  });
}

function firstBytes(socket: Socket): Promise<Buffer> {
  return new Promise((resolve) => {
    socket.once("data", (chunk: Buffer) => {
      socket.pause();
      resolve(chunk);
    });
    socket.resume();
  });
}
