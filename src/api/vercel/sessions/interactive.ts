/**
 * Terminals on Vercel's wire. A token, given for a session, opens a WebSocket:
 *
 *   client → server   text {"type":"start","command","args","env":["K=V"],"cwd","cols","rows"}, first and once
 *                     binary: input
 *                     text {"type":"resize","cols","rows"}
 *   server → client   binary: output
 *                     text {"type":"exit","code"}, then the connection is closed
 *
 * A token belongs to one terminal. While the terminal runs, a client that lost its connection may reconnect with the
 * same token, and the output continues where it stopped. Output is never sent twice, even if a broken connection lost
 * it. A terminal without a connection is hung up after a while.
 */

import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Hono } from "hono";
import type { Caller } from "../../../core/model/sandbox.ts";
import type { Terminal } from "../../kit/connection/terminal.ts";
import { WebSockets } from "../../kit/connection/websockets.ts";
import { json } from "../../kit/http.ts";
import { bodyOf, callerOf, type Dialect, type Env, idOf, queryOf } from "../request.ts";
import { vercelTerminal } from "./terminal.ts";

export function interactiveRoutes(app: Hono<Env>, dialect: Dialect, interactive: Interactive): void {
  const { core, schemas, publicUrl } = dialect;
  app.post("/:version{v[234]}/sandboxes/sessions/:sessionId/interactive", async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    await bodyOf(c, dialect, schemas.emptyBody);
    const { session } = await core.sessions.running(caller, idOf(c, "sessionId"));
    const token = interactive.issue(caller, session.id);
    return json({ url: `${publicUrl().replace(/^http/, "ws")}${pathOf(session.id)}`, token });
  });
}

interface Grant {
  sessionId: string;
  terminal: Terminal;
  /** the time until which it must be used for the first time */
  expiresAt: number;
}

const mostGrants = 10_000;

export class Interactive {
  readonly #dialect: Dialect;
  readonly #grants = new Map<string, Grant>();
  readonly #sockets = new WebSockets();

  constructor(dialect: Dialect) {
    this.#dialect = dialect;
  }

  issue(caller: Caller, sessionId: string): string {
    this.#sweep();
    const token = randomBytes(32).toString("base64url");
    const terminal = vercelTerminal(this.#dialect, caller, sessionId);
    const expiresAt = this.#dialect.clock() + this.#dialect.limits.interactive.tokenLife;
    this.#grants.set(token, { sessionId, terminal, expiresAt });
    return token;
  }

  /** answers the request and returns true if it is for a terminal */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean {
    const url = new URL(request.url ?? "/", "http://localhost");
    const sessionId = /^\/interactive\/([^/]+)$/.exec(url.pathname)?.[1];
    if (sessionId === undefined) return false;
    this.#sweep();
    const grant = this.#grants.get(url.searchParams.get("token") ?? "");
    if (grant?.sessionId !== sessionId) {
      this.#sockets.refuse(socket, 401);
      return true;
    }
    this.#sockets.accept(request, socket, head, (connection) => grant.terminal.connect(connection));
    return true;
  }

  #sweep(): void {
    const now = this.#dialect.clock();
    for (const [token, { terminal, expiresAt }] of this.#grants) {
      if (terminal.isOver(now) || (!terminal.isBegun && expiresAt <= now) || this.#grants.size > mostGrants) {
        this.#grants.delete(token);
      }
    }
  }
}

function pathOf(sessionId: string): string {
  return `/interactive/${sessionId}`;
}
