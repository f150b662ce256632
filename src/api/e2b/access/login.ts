/**
 * The login of E2B's command line. It listens on a port of its own computer and opens a page of ours, on which a person
 * who is signed in to the dashboard, or enters a key, agrees. We create a key for it and send the browser to that port:
 *
 *   GET  <page>?next=http://localhost:<port>     asks
 *   POST <page>                                  creates the key, and redirects to `next` with it, or with `error`
 *   GET  <page>?state=success|error              what the command line shows in the browser at the end
 *   POST <page>/token, <page>/revoke             the key again; deletes the key, at a logout
 *
 * The key travels in an address, as that command line wants it. So `next` may only be this computer of the person, and
 * neither a session of a browser nor a key is taken from a page of another origin.
 */

import { Hono } from "hono";
import { isSandkeepError } from "../../../core/model/errors.ts";
import type { Caller } from "../../../core/model/sandbox.ts";
import { BrowserSessions, bindingHeader, senderOf } from "../../kit/browser/browser-sessions.ts";
import { addressOf, form, json } from "../../kit/http.ts";
import { Refusal } from "../../kit/refusal.ts";
import { errorResponse, refusalOf } from "../errors.ts";
import type { Dialect } from "../request.ts";
import { keyOf, wireKeyOf } from "./keys.ts";
import { askingPage, closingPage, loginPath, loginScript } from "./login-page.ts";

/** in the list of keys; a logout deletes only keys of this name */
const keyName = "e2b auth login";
const clientId = "e2b-cli";
const longestForm = 16 << 10;

export function loginRoutes({ core, publicUrl, logError, ...service }: Dialect): Hono {
  const sessions = new BrowserSessions({ core, publicUrl, ...service });
  const app = new Hono();
  app.onError((error) => errorResponse(error, logError));

  app.get(loginPath, (c) => {
    const { state, email = "", error = "" } = c.req.query();
    if (state === "success") return closingPage(`The command line is signed in as ${email}. You can close this page.`);
    if (state === "error") return closingPage(`The command line is not signed in: ${error}`);
    return askingPage({ next: portOf(c.req.query("next")) });
  });

  app.get(`${loginPath}/signed-in.js`, () => loginScript());

  app.get(`${loginPath}/session`, async (c) => {
    const { slug } = await core.access.team(await sessions.authenticate(senderOf(c.req.raw)));
    return json({ team: slug });
  });

  app.post(loginPath, async (c) => {
    const sender = senderOf(c.req.raw);
    // Browsers name the origin of every form; without one, it is no browser, which has no page of another origin.
    if (sender.header("origin") !== undefined) sessions.requireOwnPage(sender);
    const fields = await form(c, longestForm);
    const next = portOf(fields.next);
    const go = (answer: Record<string, string>) => {
      const location = `${next}/?${new URLSearchParams(answer)}`;
      if (sender.header(bindingHeader) !== undefined) return json({ location });
      return new Response(null, { status: 303, headers: { location, "referrer-policy": "no-referrer" } });
    };
    if (fields.answer !== "approve") return go({ error: "The login was refused on the page" });
    try {
      const caller = sessions.isUsedBy(sender)
        ? await sessions.authenticate(sender)
        : await core.access.authenticate(keyOf(fields.key ?? ""), addressOf(c.req.raw));
      return go(await credentials(caller));
    } catch (error) {
      const { status, message } = refusalOf(error);
      if (status >= 500 || sender.header(bindingHeader) !== undefined) throw error;
      return askingPage({ next, message, status });
    }
  });

  app.post(`${loginPath}/token`, async (c) => {
    const { grant_type: grant, refresh_token: token = "" } = await form(c, longestForm);
    if (grant !== "refresh_token") return json({ error: "unsupported_grant_type" }, 400);
    const caller = await callerOf(token, c.req.raw);
    return caller ? json({ access_token: token, token_type: "Bearer" }) : json({ error: "invalid_grant" }, 400);
  });

  app.post(`${loginPath}/revoke`, async (c) => {
    const { token = "" } = await form(c, longestForm);
    const caller = await callerOf(token, c.req.raw);
    const keys = caller ? await core.access.keys(caller) : [];
    const own = keys.find(({ id, name }) => id === caller?.keyId && name === keyName);
    if (caller && own) await core.access.deleteKey(caller, own.id);
    return json({});
  });

  /** what the command line keeps; it asks for the team and its key with the token */
  async function credentials(caller: Caller): Promise<Record<string, string>> {
    const { slug } = await core.access.team(caller);
    const { secret } = await core.access.createKey(caller, keyName);
    const token = wireKeyOf(secret);
    const page = `${publicUrl()}${loginPath}`;
    return {
      ...{ email: `${slug}@localhost`, accessToken: token, refreshToken: token, clientId },
      ...{ tokenEndpoint: `${page}/token`, revokeEndpoint: `${page}/revoke` },
    };
  }

  /** undefined if the token is no key, or no more */
  async function callerOf(token: string, request: Request): Promise<Caller | undefined> {
    try {
      return await core.access.authenticate(keyOf(token), addressOf(request));
    } catch (error) {
      if (isSandkeepError(error, "unauthenticated")) return undefined;
      throw error;
    }
  }

  return app;
}

/** the origin that the command line listens on; no other computer may get a key */
function portOf(next = ""): string {
  const [origin] = /^http:\/\/(?:localhost|127\.0\.0\.1):\d{1,5}(?=\/?$)/.exec(next) ?? [];
  if (origin === undefined || !URL.canParse(origin))
    throw new Refusal(400, "`next` should be the address of a command line that waits: http://localhost:<port>");
  return origin;
}
