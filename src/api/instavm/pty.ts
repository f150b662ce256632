/**
 * Terminals on InstaVM's wire. Creating one starts a shell at once; clients use it over a WebSocket:
 *
 *   GET /v1/vms/{vm}/pty/{pty}/connect?token=…      (or /v1/sessions/{session}/pty/…)
 *   both ways         binary: input and output
 *   client → server   text {"type":"resize","cols","rows"}
 *   server → client   text {"type":"exit","exit_code"}, then the connection is closed
 *
 * A token belongs to one terminal and may be used again while the terminal runs. A shell without a connection is hung
 * up after a while. Terminals live in memory: they are lost when the daemon restarts.
 */

import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Hono } from "hono";
import { z } from "zod";
import type { Command, Owner } from "../../core/model/sandbox.ts";
import { Terminal } from "../kit/connection/terminal.ts";
import { WebSockets } from "../kit/connection/websockets.ts";
import { json, jsonOf, parsed } from "../kit/http.ts";
import { Refusal } from "../kit/refusal.ts";
import { notFound, sentenceOf } from "./errors.ts";
import { running } from "./executions.ts";
import { bodyOf, type Dialect, type Env, type InstavmContext, ownerOf, queryOf, vmOf, vmOfSession } from "./request.ts";
import * as wire from "./wire.ts";

export function ptyRoutes(app: Hono<Env>, dialect: Dialect, ptys: Ptys): void {
  const { core, schemas, publicUrl } = dialect;
  const kinds = { sessions: vmOfSession, vms: vmOf };

  for (const [kind, find] of Object.entries(kinds)) {
    const path = `/v1/${kind}/:id/pty/sessions`;
    const machineIn = async (c: InstavmContext) => (await find(dialect, ownerOf(c), c.req.param("id") ?? "")).session;
    const ptyIn = async (c: InstavmContext) => ptys.get((await machineIn(c)).id, c.req.param("pty") ?? "");

    app.post(path, async (c) => {
      queryOf(c, schemas.emptyQuery);
      const { shell, ...size } = await bodyOf(c, schemas.ptyBody);
      const owner = ownerOf(c);
      const id = c.req.param("id") ?? "";
      const { session } = kind === "sessions" ? await running(dialect, owner, id) : await find(dialect, owner, id);
      const { pty, token } = await ptys.open(owner, session.id, shell ?? "bash", size);
      const url = `${publicUrl().replace(/^http/, "ws")}/v1/vms/${session.id}/pty/${pty.command.id}/connect`;
      return json({ ...print(pty, pty.command), connect_token: token, url: `${url}?token=${token}` }, 201);
    });

    app.get(path, async (c) => {
      queryOf(c, schemas.emptyQuery);
      const owner = ownerOf(c);
      const all = ptys.of((await machineIn(c)).id);
      return json({ sessions: await Promise.all(all.map((pty) => printNow(owner, pty))) });
    });

    app.get(`${path}/:pty`, async (c) => {
      queryOf(c, schemas.emptyQuery);
      return json(await printNow(ownerOf(c), await ptyIn(c)));
    });

    app.delete(`${path}/:pty`, async (c) => {
      queryOf(c, schemas.emptyQuery);
      const { command } = await ptyIn(c);
      await core.commands.kill(ownerOf(c), command.sessionId, command.id, kill);
      ptys.forget(command.id);
      return json({ message: "PTY session closed", pty_id: command.id });
    });

    app.post(`${path}/:pty/resize`, async (c) => {
      queryOf(c, schemas.emptyQuery);
      const size = await bodyOf(c, schemas.sizeBody);
      const pty = await ptyIn(c);
      await pty.terminal.resize(size);
      Object.assign(pty, size);
      return json(await printNow(ownerOf(c), pty));
    });
  }

  async function printNow(owner: Owner, pty: Pty): Promise<object> {
    return print(pty, await core.commands.find(owner, pty.command.id));
  }
}

interface Pty {
  command: Command;
  terminal: Terminal;
  /** SHA-256 of the token */
  token: Buffer;
  cols: number;
  rows: number;
}

/** longest time without a connection, at first or later, in ms */
const grace = 5 * 60_000;
const mostPtys = 64;
const kill = 9;

export class Ptys {
  readonly #dialect: Dialect;
  readonly #sockets = new WebSockets();
  readonly #all = new Map<string, Pty>();

  constructor(dialect: Dialect) {
    this.#dialect = dialect;
  }

  async open(owner: Owner, sessionId: string, shell: string, size: { cols: number; rows: number }) {
    this.#sweep();
    if (this.of(sessionId).length >= mostPtys) throw new Refusal(429, `A VM has at most ${mostPtys} PTY sessions`);
    const { core, clock, logError } = this.#dialect;
    const terminal = new Terminal({ core, grace, clock, logError, read, exit, sentenceOf }, owner, sessionId);
    const command = await terminal.start({ name: shell, args: [], ...size });
    const token = randomBytes(32).toString("base64url");
    const pty: Pty = { command, terminal, token: digest(token), ...size };
    this.#all.set(command.id, pty);
    return { pty, token };
  }

  of(sessionId: string): Pty[] {
    return [...this.#all.values()].filter(({ command }) => command.sessionId === sessionId);
  }

  get(sessionId: string, id: string): Pty {
    const pty = this.#all.get(id);
    if (pty?.command.sessionId !== sessionId) throw notFound("PTY session");
    return pty;
  }

  forget(id: string): void {
    this.#all.delete(id);
  }

  /** answers the request and returns true if it is for a terminal */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean {
    const url = new URL(request.url ?? "/", "http://localhost");
    const id = /^\/v1\/(?:vms|sessions)\/[^/]+\/pty\/(cmd_[^/]+)\/connect$/.exec(url.pathname)?.[1];
    if (id === undefined) return false;
    const pty = this.#all.get(id);
    const token = digest(url.searchParams.get("token") ?? "");
    if (pty && timingSafeEqual(pty.token, token)) {
      this.#sockets.accept(request, socket, head, (connection) => pty.terminal.connect(connection));
    } else {
      this.#sockets.refuse(socket, 401);
    }
    return true;
  }

  #sweep(): void {
    const now = this.#dialect.clock();
    for (const [id, { terminal }] of this.#all) if (terminal.isOver(now)) this.#all.delete(id);
  }
}

const message = z.strictObject({
  type: z.literal("resize"),
  cols: z.int().min(1).max(65_535),
  rows: z.int().min(1).max(65_535),
});

function read(text: string): z.output<typeof message> {
  return parsed(message, jsonOf(text));
}

function exit(code: number): string {
  return JSON.stringify({ type: "exit", exit_code: code });
}

function print({ cols, rows }: Pty, { id, sessionId, name, startedAt, endedAt, exitCode }: Command): object {
  return {
    pty_id: id,
    vm_id: sessionId,
    shell: name,
    cols,
    rows,
    status: endedAt === undefined ? "running" : "exited",
    exit_code: exitCode ?? null,
    created_at: wire.time(startedAt),
  };
}

function digest(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}
