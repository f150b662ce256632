/**
 * Sessions of the protocol up to revision 2025-11-25: a handshake returns an id, with which later requests reach the
 * same server. Cancel notifications, and answers to a server's questions, find their call this way.
 *
 * A session belongs to the key that began it; for other keys it is not found. Sessions live in memory: after a restart,
 * a client gets "Session not found" and begins another.
 */

import { randomUUID } from "node:crypto";
import {
  type AuthInfo,
  type McpServerFactory,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { json } from "../kit/http.ts";

export interface LegacyOptions {
  factory: McpServerFactory;
  /** most sessions of a team; a new one replaces the least recently used */
  most?: number;
  /** how long an unused session is kept, in ms */
  idle?: number;
  /** ms since 1970 */
  clock: () => number;
  logError: (error: unknown) => void;
}

interface LegacySession {
  teamId: string;
  transport: WebStandardStreamableHTTPServerTransport;
  usedAt: number;
}

export class LegacySessions {
  readonly #options: Required<LegacyOptions>;
  /** by id, least recently used first */
  readonly #sessions = new Map<string, LegacySession>();

  constructor(options: LegacyOptions) {
    this.#options = { most: 256, idle: 24 * 60 * 60_000, ...options };
  }

  async handle(request: Request, authInfo: AuthInfo): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    if (id === null) return request.method === "POST" ? this.#begin(request, authInfo) : notAllowed();
    const session = this.#sessions.get(id);
    if (session?.teamId !== authInfo.clientId) return refusal(404, -32001, "Session not found");
    this.#use(id, session);
    return session.transport.handleRequest(request, { authInfo });
  }

  async close(): Promise<void> {
    await Promise.all([...this.#sessions.keys()].map((id) => this.#end(id)));
  }

  /** only a handshake begins a session; the transport refuses other requests without an id */
  async #begin(request: Request, authInfo: AuthInfo): Promise<Response> {
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => this.#add(id, { teamId: authInfo.clientId, transport, usedAt: 0 }),
      onsessionclosed: (id) => void this.#sessions.delete(id),
    });
    const server = await this.#options.factory({ era: "legacy", authInfo, requestInfo: request });
    await server.connect(transport);
    const response = await transport.handleRequest(request, { authInfo });
    if (transport.sessionId === undefined) await transport.close();
    return response;
  }

  #add(id: string, session: LegacySession): void {
    const { most, idle, clock } = this.#options;
    const own = [...this.#sessions].filter(([, { teamId }]) => teamId === session.teamId).map(([other]) => other);
    const stale = [...this.#sessions].filter(([, { usedAt }]) => usedAt < clock() - idle).map(([other]) => other);
    for (const other of new Set([...stale, ...own.slice(0, Math.max(0, own.length + 1 - most))])) void this.#end(other);
    this.#use(id, session);
  }

  #use(id: string, session: LegacySession): void {
    session.usedAt = this.#options.clock();
    this.#sessions.delete(id);
    this.#sessions.set(id, session);
  }

  async #end(id: string): Promise<void> {
    const session = this.#sessions.get(id);
    this.#sessions.delete(id);
    await session?.transport.close().catch(this.#options.logError);
  }
}

/** the refusal of GET and DELETE without a session */
function notAllowed(): Response {
  return refusal(405, -32000, "Method not allowed", { allow: "POST" });
}

function refusal(status: number, code: number, message: string, headers: Record<string, string> = {}): Response {
  return json({ jsonrpc: "2.0", error: { code, message }, id: null }, status, headers);
}
