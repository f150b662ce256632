/**
 * Downloads of files of sandboxes: a browser follows an address by itself, so that a file of any size goes to its disk. Such
 * a request carries no header of the page. So the page first gets a ticket, which is part of the address:
 *
 *   POST /ui/downloads            {"session", "path", "archive"?}: a ticket for one file, or for a folder as an archive
 *   GET  /ui/downloads/<ticket>   the bytes; once, within 30 s, and with the cookie of the session that asked
 */

import { randomBytes } from "node:crypto";
import { posix } from "node:path";
import type { Readable } from "node:stream";
import type { Hono } from "hono";
import { z } from "zod";
import { keepLast } from "../../base/bounded-map.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import { attachment } from "../kit/attachment.ts";
import { type BrowserSessions, senderOf } from "../kit/browser/browser-sessions.ts";
import type { Service } from "../kit/dialect.ts";
import { bodyText, byteBody, type Connection, json, jsonOf, parsed } from "../kit/http.ts";
import { ids } from "../kit/ids.ts";

const lifetime = 30_000;
/** most tickets that are open at the same time; the oldest give way */
const mostTickets = 1000;
const longestBody = 16_384;

const wanted = z.strictObject({
  session: z.string().regex(ids.session),
  path: z.string().min(1).max(4096),
  archive: z.boolean().default(false),
});

interface Ticket extends z.output<typeof wanted> {
  /** the browser's session */
  visitor: string;
  expiresAt: number;
}

export function downloadRoutes(
  app: Hono<{ Bindings: Connection }>,
  { core, clock, logError }: Pick<Service, "core" | "clock" | "logError">,
  sessions: BrowserSessions,
): void {
  const tickets = new Map<string, Ticket>();

  app.post("/ui/downloads", async (c) => {
    const sender = senderOf(c.req.raw);
    const caller = await sessions.authenticate(sender);
    const place = parsed(wanted, jsonOf(await bodyText(c.req.raw, longestBody)));
    // So that the page says why a file cannot be read: a download alone would only fail.
    const { type, targetType } = await core.userFiles.stat(caller, place.session, { path: place.path });
    if ((type === "directory" || targetType === "directory") && !place.archive) {
      throw new SandkeepError("invalid", `Cannot download "${place.path}": it is a directory`);
    }
    const ticket = randomBytes(16).toString("hex");
    tickets.set(ticket, { ...place, visitor: sessions.visitorOf(sender), expiresAt: clock() + lifetime });
    keepLast(tickets, mostTickets);
    return json({ address: `/ui/downloads/${ticket}` }, 201, { "cache-control": "no-store" });
  });

  app.get("/ui/downloads/:ticket", async (c) => {
    const code = c.req.param("ticket");
    const ticket = tickets.get(code);
    const isValid = ticket !== undefined && ticket.expiresAt > clock() && c.req.method === "GET";
    const sender = senderOf(c.req.raw);
    const caller = isValid ? await sessions.callerAt(sender, ticket.visitor) : undefined;
    // Of two requests that come together, one finds the ticket gone here.
    if (!isValid || !caller || !tickets.delete(code))
      throw new SandkeepError(
        "unauthenticated",
        "Cannot download: the address was used before, has expired, or is of another session",
      );
    const { session, path, archive } = ticket;
    const stream = (bytes: Readable) =>
      byteBody({ bytes: bytes[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>, logError, connection: c.env });
    if (archive) {
      const bytes = await core.userFiles.archive(caller, session, { path }, { gzip: true });
      return new Response(stream(bytes), { headers: headersFor(`${posix.basename(path) || "root"}.tar.gz`) });
    }
    const { file, bytes } = await core.userFiles.read(caller, session, { path });
    // A file that grows meanwhile is cut here, so that the length is right.
    const body = file.size === 0 ? null : stream(bytes({ offset: 0, length: file.size }));
    return new Response(body, { headers: { ...headersFor(path), "content-length": String(file.size) } });
  });
}

/** a browser must never take it for a page of ours */
function headersFor(name: string): Record<string, string> {
  return {
    "content-type": "application/octet-stream",
    "content-disposition": attachment(name),
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
  };
}
