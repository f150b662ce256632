/**
 * Terminals over WebSockets. A command that was started with a terminal can be attached to at
 *
 *   GET /sandkeep/v1/sessions/{session}/commands/{command}/terminal?from=…      (or /sandboxes/{sandbox}/commands/…)
 *   both ways         binary: input and output
 *   client → server   text {"type":"resize","rows","columns"}
 *   server → client   text {"type":"attached","offset","end"}, first: where the output begins, and where it ends so far
 *                     text {"type":"dropped","bytes"}: output that is no longer kept
 *                     text {"type":"exit","exitCode"} or {"type":"error","error"}, then the connection is closed
 *
 * Any number of clients share a terminal. Each reads the command's journal from an offset of its own, so a client that
 * comes back continues after the bytes that it has, also after a restart of the daemon. A client that cannot set headers
 * sends its key as the subprotocol "sandkeep.key.<key>" beside "sandkeep". A page of the dashboard sends the binding of its
 * session as "sandkeep.session.<binding>" (kit/browser-sessions.ts).
 */

import { setMaxListeners } from "node:events";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { WebSocket } from "ws";
import { z } from "zod";
import { isSandkeepError, SandkeepError } from "../../core/model/errors.ts";
import type { Caller } from "../../core/model/sandbox.ts";
import { requireChange } from "../../core/model/scope.ts";
import { BrowserSessions } from "../kit/browser/browser-sessions.ts";
import { TerminalInput, taken } from "../kit/connection/terminal.ts";
import { closingReason, WebSockets } from "../kit/connection/websockets.ts";
import { InvalidInput, jsonOf, parsed, requireText } from "../kit/http.ts";
import { ids } from "../kit/ids.ts";
import { statuses } from "../kit/refusal.ts";
import { errorLine } from "./errors.ts";
import type { Dialect } from "./sandkeep.ts";

const path = /^\/sandkeep\/v1\/(sessions|sandboxes)\/([^/]+)\/commands\/([^/]+)\/terminal$/;

const query = z.strictObject({
  from: z
    .string()
    .regex(/^\d{1,15}$/)
    .transform(Number)
    .default(0),
  team: z.string().min(1).max(128).optional(),
  project: z.string().min(1).max(128).optional(),
});

const message = z.strictObject({
  type: z.literal("resize"),
  rows: z.int().min(1).max(65_535),
  columns: z.int().min(1).max(65_535),
});

const closing = { done: 1000, invalid: 1003, refused: 1008, failed: 1011 };

/** A command that a client attaches to. */
interface Attachment {
  caller: Caller;
  session: string;
  command: string;
  /** offset that the client asks for; may be beyond the end */
  from: number;
}

export class Terminals {
  readonly #dialect: Dialect;
  readonly #sockets = new WebSockets();
  readonly #sessions: BrowserSessions;

  constructor(dialect: Dialect) {
    this.#dialect = dialect;
    this.#sessions = new BrowserSessions(dialect);
  }

  /** answers the request and returns true if it is for a terminal */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean {
    const url = new URL(request.url ?? "/", "http://localhost");
    const [, kind = "", name = "", command = ""] = path.exec(url.pathname) ?? [];
    if (kind === "") return false;
    // The client may leave while its key is looked up.
    socket.on("error", () => undefined);
    this.#find(request, url, { kind, name, command }).then(
      (found) => this.#sockets.accept(request, socket, head, (connection) => void this.#attach(connection, found)),
      (error) => {
        const isTheirs = error instanceof InvalidInput || error instanceof URIError;
        const code = isTheirs ? "invalid" : isSandkeepError(error) ? error.code : "internal";
        if (code === "internal") this.#dialect.logError(error);
        this.#sockets.refuse(socket, statuses[code]);
      },
    );
    return true;
  }

  async #find(request: IncomingMessage, url: URL, named: Record<"kind" | "name" | "command", string>) {
    const { core } = this.#dialect;
    const sender = { method: "GET", header: (name: string) => headerOf(request, name) };
    const known = this.#sessions.isUsedBy(sender)
      ? await this.#sessions.authenticate(sender)
      : await core.access.authenticate(keyOf(request), request.socket.remoteAddress ?? "");
    requireChange(known);
    const { from, team, project } = parsed(query, Object.fromEntries(url.searchParams));
    const caller = await core.access.actingFor(known, team);
    const [name, command] = [named.name, named.command].map(decodeURIComponent);
    requireText([name, command]);
    const session = named.kind === "sessions" ? name : await currentSession(name ?? "");
    if (!ids.session.test(session ?? "") || !ids.command.test(command ?? "")) throw notFound();
    const found = await core.commands.get(caller, session ?? "", command ?? "");
    return { caller, session: found.sessionId, command: found.id, from };

    async function currentSession(sandbox: string): Promise<string> {
      const owner = await core.access.owner(caller, { project });
      return (await core.sandboxes.get(owner, sandbox)).session.id;
    }
  }

  async #attach(connection: WebSocket, attachment: Attachment): Promise<void> {
    const { core, logError } = this.#dialect;
    const { caller, session, command } = attachment;
    const gone = new AbortController();
    connection.on("error", () => connection.terminate());
    connection.on("close", () => gone.abort());
    endWithKey(connection, caller.ended);
    const input = new TerminalInput(connection, (data) => core.commands.write(caller, session, command, data));
    connection.on("message", (data: Buffer, isBinary: boolean) => {
      if (isBinary) input.push(data);
      else void this.#obey(connection, attachment, data.toString());
    });
    try {
      let next = -1;
      // Without a machine the end is not known.
      const end = (await core.commands.process(caller, session, command))?.end ?? attachment.from;
      const from = Math.min(attachment.from, end);
      const options = { from, signal: gone.signal };
      connection.send(JSON.stringify({ type: "attached", offset: from, end }));
      for await (const { offset, data, dropped = 0 } of await core.commands.output(caller, session, command, options)) {
        if (gone.signal.aborted) return;
        if (dropped > 0) connection.send(JSON.stringify({ type: "dropped", bytes: dropped }));
        next = offset + data.length;
        if (!(await taken(connection, data))) return;
      }
      if (gone.signal.aborted) return;
      const { exitCode = null } = await core.commands.wait(caller, session, command, gone.signal);
      const exit = JSON.stringify({ type: "exit", exitCode, offset: Math.max(next, from) });
      connection.send(exit, () => connection.close(closing.done));
    } catch (error) {
      if (gone.signal.aborted) return;
      const failed = JSON.stringify({ type: "error", ...errorLine(error, logError) });
      connection.send(failed, () => connection.close(closing.failed));
    }
  }

  async #obey(connection: WebSocket, { caller, session, command }: Attachment, text: string): Promise<void> {
    const { core, logError } = this.#dialect;
    try {
      const { rows, columns } = parsed(message, jsonOf(text));
      await core.commands.resize(caller, session, command, { rows, columns });
    } catch (error) {
      // A command that has just ended has no size.
      if (isSandkeepError(error, "gone")) return;
      const { error: refusal } = errorLine(error, logError);
      connection.close(closing.invalid, closingReason(refusal.message));
    }
  }
}

function endWithKey(connection: WebSocket, ended: AbortSignal | undefined): void {
  if (!ended) return;
  const end = () => connection.close(closing.refused, "the key that opened this terminal is no longer valid");
  if (ended.aborted) end();
  setMaxListeners(0, ended);
  ended.addEventListener("abort", end, { once: true });
  connection.on("close", () => ended.removeEventListener("abort", end));
}

function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  return [headers[name]].flat()[0];
}

/** the key in the Authorization header, or in a subprotocol */
function keyOf({ headers }: IncomingMessage): string {
  const [, bearer] = /^Bearer +(\S{1,8192})$/i.exec(headers.authorization ?? "") ?? [];
  const [, offered] = /(?:^|,)\s*sandkeep\.key\.([^\s,]{1,8192})/.exec(headers["sec-websocket-protocol"] ?? "") ?? [];
  const key = bearer ?? offered;
  if (key === undefined) throw new SandkeepError("unauthenticated", "There is no key");
  return key;
}

function notFound(): SandkeepError {
  return new SandkeepError("not-found", "There is no such terminal");
}
