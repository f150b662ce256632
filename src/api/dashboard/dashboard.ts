/**
 * The dashboard's own routes: its page and files, and signing in. Everything that its pages show and do goes through our
 * own API, like any other client's.
 *
 *   GET    /                a browser is led to the dashboard; programs get the welcome text of server.ts
 *   GET    /ui/…            the page, whatever the path; the page's router reads it
 *   GET    /ui/v/<hash>/…   scripts and styles, which never change under their address
 *   POST   /ui/session      {"key"} or {"once"}: signs in; a link replaces the session of another key only with "replace"
 *   GET    /ui/session      renews the session of a visitor
 *   DELETE /ui/session      signs out
 *   POST   /ui/links        with a key: a link that signs a browser in once
 *   …      /ui/downloads    files of sandboxes, for the browser to save (downloads.ts)
 *   GET    /ui/examples     how programs use a sandbox, or make one, over each dialect
 */

import { Hono } from "hono";
import { z } from "zod";
import { isSandkeepError, SandkeepError } from "../../core/model/errors.ts";
import type { Caller } from "../../core/model/sandbox.ts";
import { authenticate } from "../kit/authentication.ts";
import { BrowserSessions, type OpenedSession, type Sender, senderOf } from "../kit/browser/browser-sessions.ts";
import type { ApiDialect, Example, ExamplePlace, Service } from "../kit/dialect.ts";
import { addressOf, bodyText, type Connection, InvalidInput, json, jsonOf, parsed } from "../kit/http.ts";
import { invalidWords } from "../kit/issues.ts";
import { retryAfter, statuses } from "../kit/refusal.ts";
import { Assets, type DashboardFiles } from "./assets.ts";
import { downloadRoutes } from "./downloads.ts";
import { OneTimeLinks } from "./one-time-links.ts";
import { page, pageHeaders } from "./page.ts";

export interface Dashboard extends ApiDialect {
  /** an address that signs a browser in once, within `lifetime` ms */
  signInLink(caller: Caller, lifetime: number): string;
}

const credentials = z.union([
  z.strictObject({ key: z.string().min(1).max(8192) }),
  z.strictObject({ once: z.string().regex(/^[0-9a-f]{32}$/), replace: z.boolean().default(false) }),
]);
const longestBody = 16_384;
/** they become part of lines that people paste into shells, so they must be safe there */
const word = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/);
const exampleQuery = z.strictObject({ name: word.optional(), id: word.optional(), sessionId: word.optional() });

/** how long a link of POST /ui/links is valid, in ms */
const linkLifetime = 60_000;

export function createDashboard(
  service: Service,
  files: DashboardFiles,
  examples: (at: ExamplePlace) => Example[],
): Dashboard {
  const { core, logError, clock, publicUrl } = service;
  const sessions = new BrowserSessions(service);
  const links = new OneTimeLinks(clock);
  const assets = new Assets(files);
  const app = new Hono<{ Bindings: Connection }>();
  app.onError((error) => refusal(error, logError));

  const admitted = (caller: Caller, { setCookie, binding, expiresAt }: OpenedSession) => {
    const headers = { "set-cookie": setCookie, "cache-control": "no-store" };
    const { teamId: team, keyId: key, admin = false, scope } = caller;
    return json({ binding, expiresAt, team, key, admin, readOnly: scope?.readOnly ?? false }, 200, headers);
  };
  /** refuses a link of another key than that of the browser's session: anybody may have sent the link */
  const requireSameKey = async (once: string, sender: Sender) => {
    const wanted = links.peek(once);
    if (!wanted || !sessions.isUsedBy(sender)) return;
    const present = await sessions.authenticate(sender).catch((error) => {
      if (!isSandkeepError(error, "unauthenticated")) throw error;
    });
    if (!present || (present.teamId === wanted.teamId && present.keyId === wanted.keyId)) return;
    const words = ({ teamId, keyId }: Caller) => `key ${keyId} of team ${teamId}`;
    const message = `This browser is signed in with ${words(present)}, and the link is for ${words(wanted)}`;
    throw new SandkeepError("conflict", message);
  };
  app.get("/", (c) => c.redirect("/ui/"));
  app.post("/ui/session", async (c) => {
    const sender = senderOf(c.req.raw);
    sessions.requireOwnPage(sender);
    const given = parsed(credentials, jsonOf(await bodyText(c.req.raw, longestBody)));
    if ("once" in given && !given.replace) await requireSameKey(given.once, sender);
    const known =
      "once" in given ? links.redeem(given.once) : await core.access.authenticate(given.key, addressOf(c.req.raw));
    const caller = await core.access.signIn(known);
    return admitted(caller, sessions.open(caller, sender));
  });
  app.get("/ui/session", async (c) => {
    const { caller, opened } = await sessions.renew(senderOf(c.req.raw));
    return admitted(caller, opened);
  });
  app.delete("/ui/session", async (c) => {
    const sender = senderOf(c.req.raw);
    await sessions.authenticate(sender);
    return json({}, 200, { "set-cookie": sessions.close(sender) });
  });
  app.post("/ui/links", async (c) => {
    const caller = await core.access.linkToSignIn(await authenticate({ access: core.access }, c.req));
    const { code, expiresAt } = links.make(caller, linkLifetime);
    return json({ url: `${publicUrl()}/ui/#once=${code}`, expiresAt }, 201, { "cache-control": "no-store" });
  });
  app.get("/ui/examples", async (c) => {
    await sessions.authenticate(senderOf(c.req.raw));
    const { name, id, sessionId } = parsed(exampleQuery, c.req.query());
    const isKnown = name !== undefined && id !== undefined && sessionId !== undefined;
    return json({ examples: examples({ url: publicUrl(), ...(isKnown && { sandbox: { name, id, sessionId } }) }) });
  });
  downloadRoutes(app, service, sessions);
  app.get("/ui/v/:hash/:path{.+}", (c) => {
    const asset = assets.find(c.req.param("hash"), c.req.param("path"));
    return asset ? assets.answer(asset, c.req.header("accept-encoding")) : c.json(nothing, 404);
  });
  app.get("/ui", (c) => c.redirect("/ui/"));
  app.get("/ui/*", (c) => c.body(page(assets.version()), 200, pageHeaders));
  app.notFound((c) => c.json(nothing, 404));

  return {
    wire: "dashboard",
    mounts: [
      { path: /^\/$/, methods: ["GET", "HEAD"], headers: wantsPage, app },
      { path: /^\/ui(\/|$)/, app },
    ],
    signInLink: (caller, lifetime) => `${publicUrl()}/ui/#once=${links.make(caller, lifetime).code}`,
  };
}

const nothing = { error: { code: "not_found", message: "There is nothing at this address" } };

function wantsPage(headers: Headers): boolean {
  return /\btext\/html\b/.test(headers.get("accept") ?? "");
}

function refusal(error: unknown, logError: (error: unknown) => void): Response {
  if (error instanceof InvalidInput) {
    return json({ error: { code: "invalid", message: invalidWords(error.issues) } }, statuses.invalid);
  }
  if (isSandkeepError(error) && error.code !== "internal") {
    const status = statuses[error.code];
    const code = error.code.replaceAll("-", "_");
    return json({ error: { code, message: error.message } }, status, status === 429 ? retryAfter(error) : {});
  }
  logError(error);
  return json({ error: { code: "internal", message: "An internal error occurred" } }, statuses.internal);
}
