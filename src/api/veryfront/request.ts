/** What every route of Veryfront's wire begins with: reads the caller, the session, the query and the body. */

import { type Context, Hono } from "hono";
import type { z } from "zod";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Caller } from "../../core/model/sandbox.ts";
import { authenticate } from "../kit/authentication.ts";
import type { Service } from "../kit/dialect.ts";
import { bodyText, type Connection, jsonOf, parsed, queryParameters } from "../kit/http.ts";
import { ids } from "../kit/ids.ts";
import { Refusal } from "../kit/refusal.ts";
import { errorResponse } from "./errors.ts";
import type { Schemas, VeryfrontLimits } from "./schemas.ts";

/** What the routes get from the daemon. */
export interface Dialect extends Pick<Service, "core" | "publicUrl" | "closing" | "logError"> {
  schemas: Schemas;
  limits: VeryfrontLimits;
}

export type Env = { Variables: { caller: Caller }; Bindings: Connection };
export type VeryfrontContext = Context<Env>;

/** a router that authenticates the caller before any route runs */
export function authenticated({ core, logError }: Dialect): Hono<Env> {
  const app = new Hono<Env>({ strict: false });
  app.onError((error) => errorResponse(error, logError));
  app.notFound(() => errorResponse(new Refusal(404, "There is nothing at this address"), logError));
  app.use(async (c, next) => {
    c.set("caller", await authenticate(core, c.req));
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

/** the id in the path; an invalid id is not looked up */
export function sessionOf(c: VeryfrontContext): string {
  const id = c.req.param("session") ?? "";
  if (!ids.session.test(id)) throw new SandkeepError("not-found", `Session "${id.slice(0, 128)}" not found`);
  return id;
}

export function commandOf(c: VeryfrontContext): string {
  const id = c.req.param("command") ?? "";
  if (!ids.command.test(id)) throw new SandkeepError("not-found", `Command "${id.slice(0, 128)}" not found`);
  return id;
}
