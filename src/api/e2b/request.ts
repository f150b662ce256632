/** What every route of E2B's API begins with: reads the caller, the sandbox, the query and the body. */

import { type Context, Hono } from "hono";
import type { z } from "zod";
import { isSandkeepError, SandkeepError } from "../../core/model/errors.ts";
import type { Owner } from "../../core/model/sandbox.ts";
import { idOfLabel } from "../../core/model/sandbox-label.ts";
import type { Booted } from "../../core/sandboxes/sandboxes.ts";
import { bearerOf, requireRead } from "../kit/authentication.ts";
import type { Service } from "../kit/dialect.ts";
import { abortWhenEnded, addressOf, bodyText, type Connection, jsonOf, parsed, queryParameters } from "../kit/http.ts";
import { Refusal } from "../kit/refusal.ts";
import { RememberingRouter } from "../kit/routing/remembering-router.ts";
import type { IssuedTokens } from "./access/issued-tokens.ts";
import { keyOf } from "./access/keys.ts";
import { errorResponse, noSandbox } from "./errors.ts";
import type { Interpreters } from "./interpreter/interpreters.ts";
import type { Schemas } from "./schemas.ts";
import { isThere } from "./wire.ts";

/** What the routes get from the daemon. */
export interface Dialect extends Service {
  schemas: Schemas;
  issued: IssuedTokens;
  interpreters: Interpreters;
}

export type Env = { Variables: { owner: Owner }; Bindings: Connection };
export type E2bContext = Context<Env>;

/** a router that authenticates the caller before any route runs */
export function authenticated({ core, logError }: Dialect): Hono<Env> {
  const app = new Hono<Env>({ strict: false, router: new RememberingRouter() });
  app.onError((error) => errorResponse(error, logError));
  app.notFound(() => errorResponse(new Refusal(404, "There is nothing at this address"), logError));
  app.use(async (c, next) => {
    const given = c.req.header("x-api-key") || bearerOf(c.req.raw);
    if (!/^\S{1,8192}$/.test(given))
      throw new SandkeepError("unauthenticated", "Cannot authenticate: the key is malformed");
    const caller = await core.access.authenticate(keyOf(given), addressOf(c.req.raw));
    abortWhenEnded(c.req.raw, caller.ended);
    requireRead(caller, c.req);
    c.set("owner", await core.access.owner(caller, {}));
    await next();
  });
  return app;
}

/** the JSON body; no body is an empty object */
export async function bodyOf<S extends z.ZodType>(c: E2bContext, { limits }: Dialect, schema: S): Promise<z.output<S>> {
  return parsed(schema, jsonOf(await bodyText(c.req.raw, limits.body)));
}

export function queryOf<S extends z.ZodType>(c: E2bContext, schema: S): z.output<S> {
  return parsed(schema, queryParameters(c));
}

/** an answer without a body */
export function nothing(): Response {
  return new Response(null, { status: 204 });
}

/** the sandbox in the path */
export function sandboxOf(c: E2bContext, dialect: Dialect): Promise<Booted> {
  return sandboxCalled(dialect, c.get("owner"), c.req.param("id") ?? "");
}

/**
 * A sandbox by its id. A sandbox that has ended without a snapshot counts as not found, because this vendor has no
 * state for it. So do invalid ids, which are not looked up, and sandboxes of other teams.
 */
export async function sandboxCalled({ core }: Pick<Dialect, "core">, owner: Owner, given: string): Promise<Booted> {
  // Ids of an older form end in a dash and a client id.
  const id = idOfLabel(given.split("-")[0] ?? "");
  if (id === undefined) throw noSandbox(given);
  const sandbox = await core.sandboxes.byId(owner, id).catch((error: unknown) => {
    throw isSandkeepError(error, "not-found") || isSandkeepError(error, "forbidden") ? noSandbox(given) : error;
  });
  const session = await core.sessions.get(owner, sandbox.currentSessionId);
  if (!isThere(session)) throw noSandbox(given);
  return { sandbox, session };
}
