/** What every route of Veryfront's wire begins with: who asks, about which session, and what was sent along. */

import { type Context, Hono } from "hono";
import type { z } from "zod";
import type { Core } from "../../core/core.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Caller } from "../../core/model/sandbox.ts";
import {
  addressOf,
  bearerOf,
  bodyText,
  type Connection,
  jsonOf,
  parsed,
  queryParameters,
  requireRead,
} from "../kit/http.ts";
import { Refusal } from "../kit/refusal.ts";
import { errorResponse } from "./errors.ts";
import { commandId, type Schemas, sessionId, type VeryfrontLimits } from "./schemas.ts";

/** What the routes stand on. */
export interface Dialect {
  core: Core;
  schemas: Schemas;
  limits: VeryfrontLimits;
  /** the address of this daemon as its clients know it, without a slash at its end */
  publicUrl: () => string;
  /** whether it is the daemon that goes away when a connection breaks */
  closing: () => boolean;
  /** told of what is our own fault */
  trouble: (error: unknown) => void;
}

export type Env = { Variables: { caller: Caller }; Bindings: Connection };
export type VeryfrontContext = Context<Env>;

/** a router that knows who asks before any route runs */
export function authenticated({ core, trouble }: Dialect): Hono<Env> {
  const app = new Hono<Env>({ strict: false });
  app.onError((error) => errorResponse(error, trouble));
  app.notFound(() => errorResponse(new Refusal(404, "There is nothing at this address"), trouble));
  app.use(async (c, next) => {
    const caller = await core.access.authenticate(bearerOf(c.req.raw), addressOf(c.req.raw));
    requireRead(caller, c.req.raw, c.req.path, /^$/);
    c.set("caller", caller);
    await next();
  });
  return app;
}

/** the JSON body; no body is an empty object */
export async function bodyOf<S extends z.ZodType>(c: VeryfrontContext, schema: S, longest: number) {
  return parsed(schema, jsonOf(await bodyText(c.req.raw, longest)));
}

export function queryOf<S extends z.ZodType>(c: VeryfrontContext, schema: S): z.output<S> {
  return parsed(schema, queryParameters(c));
}

/** what cannot be an id is not looked for */
export function sessionOf(c: VeryfrontContext): string {
  const id = c.req.param("session") ?? "";
  if (!sessionId.test(id)) throw new SandkeepError("not-found", `Session "${id.slice(0, 128)}" not found`);
  return id;
}

export function commandOf(c: VeryfrontContext): string {
  const id = c.req.param("command") ?? "";
  if (!commandId.test(id)) throw new SandkeepError("not-found", `Command "${id.slice(0, 128)}" not found`);
  return id;
}
