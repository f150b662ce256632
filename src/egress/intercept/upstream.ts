/**
 * The server that requests are passed on to: opens connections to it, verifies its certificate, and speaks
 * HTTP/2 with it if both sides support that, HTTP/1.1 otherwise. Failures are sentences.
 */

import { isIP, type Socket } from "node:net";
import {
  connect as connectTls,
  createSecureContext,
  getCACertificates,
  type SecureContext,
  type TLSSocket,
} from "node:tls";
import { keepLast } from "../../base/bounded-map.ts";
import { SharedRun } from "../../base/concurrency/single-flight.ts";
import { codeOf } from "../../base/error-code.ts";
import { messageOf } from "../../core/model/errors.ts";
import type { Client } from "./client.ts";
import { http1Client } from "./http1-client.ts";
import { type Http2Client, http2Client } from "./http2-client.ts";

/** Why a server cannot be asked at all. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

/** without the library's message, which could quote a value: values may be secret */
export function unsendable(host: string, error: unknown): Unreachable {
  if (error instanceof Unreachable) return error;
  return new Unreachable(`Cannot pass the request on to "${host}": it is not valid (${codeOf(error) ?? "unknown"})`);
}

export interface OriginOptions {
  host: string;
  port: number;
  /** false for a plain http URL */
  secure: boolean;
  /** whether HTTP/2 is wanted */
  http2: boolean;
  /** most connections at once, where each carries one request at a time */
  connections: number;
  /** a raw connection */
  open(): Promise<Socket>;
  context: SecureContext;
  /** bytes of answers that may be under way before they are taken, over HTTP/2 */
  room?: number | undefined;
  /** called when a usable connection has ended */
  closed?(): void;
}

export class Upstream {
  readonly #options: OriginOptions;
  readonly #sockets = new Set<Socket>();
  readonly #http1: Client;
  #http2: Http2Client | undefined;
  readonly #choosing = new SharedRun<Client>();
  /** a connection that was made before its request was there */
  #spare: Promise<Socket> | undefined;
  #isClosed = false;

  constructor(options: OriginOptions) {
    this.#options = options;
    this.#http1 = http1Client({ open: () => this.connect(), connections: options.connections });
  }

  /** connects already, as a request is about to come */
  warm(): void {
    this.#spare ??= this.#connect();
    this.#spare.catch(() => undefined);
  }

  /** the client for it */
  client(): Promise<Client> {
    if (!this.#options.http2) return Promise.resolve(this.#http1);
    if (this.#http2?.usable) return Promise.resolve(this.#http2);
    return this.#choosing.run(() => this.#choose());
  }

  /** a connection for one caller alone; rejects with `Unreachable` */
  connect(): Promise<Socket> {
    const spare = this.#spare;
    this.#spare = undefined;
    return spare ? spare.then((socket) => (socket.destroyed ? this.#connect() : socket)) : this.#connect();
  }

  close(): void {
    this.#isClosed = true;
    this.#http1.close();
    this.#http2?.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  async #choose(): Promise<Client> {
    const socket = await this.connect();
    if ("alpnProtocol" in socket && socket.alpnProtocol === "h2") {
      this.#http2 = http2Client(socket, this.#options.host, this.#options.room);
      return this.#http2;
    }
    this.#spare = Promise.resolve(socket);
    return this.#http1;
  }

  async #connect(): Promise<Socket> {
    const { host, secure } = this.#options;
    let raw: Socket;
    try {
      raw = await this.#options.open();
    } catch (cause) {
      throw new Unreachable(`Cannot reach "${host}": ${messageOf(cause)}`, { cause });
    }
    const socket = secure ? this.#secured(raw) : raw;
    this.#sockets.add(socket);
    // The user of the connection also gets its errors.
    socket.on("error", () => undefined);
    socket.once("close", () => this.#sockets.delete(socket));
    if (this.#isClosed) socket.destroy();
    if (secure) await established(socket, host);
    socket.once("close", () => this.#options.closed?.());
    return socket;
  }

  #secured(raw: Socket): TLSSocket {
    const { host, port, http2, context } = this.#options;
    raw.setNoDelay(true);
    const id = `${host}:${port} ${http2}`;
    const sessions = sessionsOf(context);
    const session = sessions.get(id);
    const socket = connectTls({
      ...(session && session.until > Date.now() && { session: session.ticket }),
      socket: raw,
      host,
      // An address is checked all the same, but cannot be asked for by name.
      ...(isIP(host) === 0 && { servername: host }),
      secureContext: context,
      ALPNProtocols: http2 ? ["h2", "http/1.1"] : ["http/1.1"],
      // Explicit, so that no environment variable can turn it off.
      rejectUnauthorized: true,
    });
    socket.on("session", (ticket: Buffer) => {
      if (!socket.authorized) return;
      // A resumed session is not a new verification.
      const until = socket.isSessionReused() && session ? session.until : Date.now() + resumable;
      sessions.delete(id);
      sessions.set(id, { ticket, until });
      keepLast(sessions, mostSessions);
    });
    return socket;
  }
}

/**
 * TLS sessions of verified servers, for resumption, which saves both sides half of the work. A resumed session proves that
 * it is the same server, so its certificate is not checked again for an hour.
 */
type Sessions = Map<string, { ticket: Buffer; until: number }>;

/** each belongs to the authorities that were trusted when the server was verified */
const sessionMaps = new WeakMap<SecureContext, Sessions>();

function sessionsOf(context: SecureContext): Sessions {
  const sessions: Sessions = sessionMaps.get(context) ?? new Map();
  sessionMaps.set(context, sessions);
  return sessions;
}

const mostSessions = 1_000;
const resumable = 60 * 60_000;

/** authorities to trust for servers: the roots of Node and of this host, besides the given ones */
export function trustedContext(roots: readonly string[] = []): SecureContext {
  const id = roots.join();
  const known = contexts.get(id);
  if (known) return known;
  const ca = [...new Set([...getCACertificates("default"), ...getCACertificates("system"), ...roots])];
  const made = createSecureContext({ ca });
  contexts.set(id, made);
  return made;
}

/** there are as many as there are settings: one */
const contexts = new Map<string, SecureContext>();

/** longest that a server's TLS handshake may take, in ms */
const handshakeTimeout = 30_000;

function established(socket: Socket, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = () => {
      clearTimeout(timer);
      socket.off("secureConnect", succeed).off("error", failed).off("close", closed);
    };
    const fail = (why: string, cause?: Error) => {
      settle();
      reject(new Unreachable(`Cannot reach "${host}": ${why}`, { cause }));
      socket.destroy();
    };
    const succeed = () => {
      settle();
      resolve();
    };
    const failed = (error: Error) => fail(tlsProblem(error), error);
    const closed = () => fail("it closed the connection before TLS was established");
    const timer = setTimeout(() => fail("it does not answer to TLS"), handshakeTimeout);
    socket.once("secureConnect", succeed).once("error", failed).once("close", closed);
  });
}

function tlsProblem(error: Error & { code?: string; reason?: string }): string {
  const { code = "", reason } = error;
  if (/CERT|ISSUER|SIGNATURE|CRL|HOSTNAME|CA$|PURPOSE|UNABLE_TO/.test(code) && !code.startsWith("ERR_SSL")) {
    return `its certificate is not valid: ${reason ?? error.message} (${code})`;
  }
  if (code === "ECONNRESET") return "it closed the connection before TLS was established";
  return `TLS with it failed: ${reason ?? error.message}${code === "" ? "" : ` (${code})`}`;
}
