/**
 * TLS on the daemon's own port. The first byte of a connection says whether it is TLS. After the handshake a connection
 * goes to the HTTP/1.1 server or, if the client prefers it, to HTTP/2. Plain HTTP is answered with where to go instead.
 */

import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { Http2Server, ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { createServer as createTlsServer, type TLSSocket, type Server as TlsServer } from "node:tls";
import { pemOf, type TlsIdentity } from "../../config/tls-settings.ts";
import type { ClosableServer } from "../listening.ts";
import { http2Server } from "./http2-requests.ts";

/** how long a client may take to send its first byte, and then for the handshake, in ms */
const openingTime = 30_000;
/** the first byte of every TLS connection: a record of a handshake */
const handshake = 0x16;

export class SecureServer implements ClosableServer {
  readonly #server: Server;
  readonly #serveHttp1: (socket: Socket) => void;
  readonly #tls: TlsServer;
  readonly #http2: Http2Server;
  readonly #sockets = new Set<Socket>();
  readonly #sessions = new Set<ServerHttp2Session>();

  /** takes over the connections of `server`, which then gets those that speak HTTP/1.1 */
  constructor(server: Server, identity: TlsIdentity, listener: RequestListener) {
    this.#server = server;
    const listeners = server.listeners("connection");
    this.#serveHttp1 = (socket) => {
      for (const serve of listeners) serve.call(server, socket);
    };
    this.#tls = createTlsServer({
      ...contextOf(identity),
      ALPNProtocols: ["h2", "http/1.1"],
      handshakeTimeout: openingTime,
    });
    this.#tls.on("tlsClientError", (_error, socket) => socket.destroy());
    this.#tls.on("secureConnection", (socket) => this.#serve(socket));
    this.#http2 = http2Server(listener);
    this.#http2.on("session", (session) => {
      this.#sessions.add(session);
      session.once("close", () => this.#sessions.delete(session));
    });
    server.removeAllListeners("connection");
    server.on("connection", (socket) => this.#open(socket));
  }

  /** serves new connections with another certificate */
  renew(identity: TlsIdentity): void {
    this.#tls.setSecureContext(contextOf(identity));
  }

  close(closed: () => void): void {
    this.#server.close(closed);
    // Tells clients not to send further requests, and ends when the last one is answered.
    for (const session of this.#sessions) session.close();
  }

  closeAllConnections(): void {
    this.#server.closeAllConnections();
    for (const session of this.#sessions) session.destroy();
    for (const socket of this.#sockets) socket.destroy();
  }

  #open(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    // Notices when a client has vanished without a word.
    socket.setKeepAlive(true, 60_000);
    const giveUp = () => socket.destroy();
    socket.setTimeout(openingTime, giveUp);
    socket.once("readable", () => {
      const first: Buffer | null = socket.read(1);
      if (first === null) return void socket.destroy();
      socket.unshift(first);
      socket.setTimeout(0).off("timeout", giveUp);
      if (first[0] !== handshake) return this.#serveHttp1(socket);
      // The server for HTTP/1.1 handles clients that end their half of a connection; HTTP/2 would wait for ever.
      socket.allowHalfOpen = false;
      this.#tls.emit("connection", socket);
    });
  }

  #serve(socket: TLSSocket): void {
    if (socket.alpnProtocol === "h2") this.#http2.emit("connection", socket);
    else this.#serveHttp1(socket);
  }
}

function contextOf({ cert, key }: TlsIdentity): { cert: string; key: string } {
  return { cert, key: pemOf(key) };
}

/** whether a request came without TLS */
export function isPlain({ socket }: IncomingMessage): boolean {
  return !("encrypted" in socket && socket.encrypted);
}

/** answers a request that came without TLS: a page of a browser is sent on, a program gets an error */
export function answerPlain(request: IncomingMessage, response: ServerResponse, publicUrl: string): void {
  const target = secureUrl(request, publicUrl);
  response.shouldKeepAlive = false;
  const isPage = ["GET", "HEAD"].includes(request.method ?? "") && (request.headers.accept ?? "").includes("text/html");
  if (isPage) return void response.writeHead(308, { location: target }).end();
  response.writeHead(400, { "content-type": "application/json; charset=utf-8" }).end(sentence(target));
}

/** the same for a request that asks for another protocol */
export function refusePlain(request: IncomingMessage, socket: Duplex, publicUrl: string): void {
  const body = sentence(secureUrl(request, publicUrl));
  const head = `HTTP/1.1 400 Bad Request\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n`;
  socket.on("error", () => socket.destroy());
  socket.end(head + body, () => socket.destroy());
}

function sentence(target: string): string {
  const { origin } = new URL(target);
  const message = `Cannot answer plain HTTP: this daemon serves HTTPS. Use ${origin}`;
  return JSON.stringify({ error: { code: "https_required", message } });
}

/** the request's own address with https; the daemon's address if the request's host is invalid */
function secureUrl({ headers, url = "/" }: IncomingMessage, publicUrl: string): string {
  const origin = `https://${headers.host}`;
  const base = headers.host !== undefined && URL.canParse(origin) ? new URL(origin).origin : publicUrl;
  return base + (url.startsWith("/") ? url : "/");
}
