/**
 * What no vendor has words for, in our own: below /sandkeep/v1, for whoever has a key. Answers are JSON, errors are
 * `{"error":{"code","message"}}`.
 */

import { type Context, Hono } from "hono";
import type { Core } from "../../core/core.ts";
import type { Caller } from "../../core/model/sandbox.ts";
import { addressOf, bearerOf, requireRead } from "../kit/http.ts";
import { callerRoutes } from "./caller.ts";
import { egressRoutes } from "./egress.ts";
import { errorResponse, nothingHere } from "./errors.ts";
import { eventRoutes } from "./events.ts";
import { hostRoutes } from "./host.ts";
import { keyRoutes } from "./keys.ts";

export const sandkeepPaths = /^\/sandkeep\/v1(\/|$)/;

/** What the routes stand on. */
export interface Dialect {
  core: Core;
  /** told of what is our own fault */
  trouble: (error: unknown) => void;
}

export type Env = { Variables: { caller: Caller } };
export type SandkeepContext = Context<Env>;

export function sandkeepApi(dialect: Dialect): Hono<Env> {
  const { core, trouble } = dialect;
  const app = new Hono<Env>().basePath("/sandkeep/v1");
  app.onError((error) => errorResponse(error, trouble));
  app.notFound(() => errorResponse(nothingHere(), trouble));
  app.use(async (c, next) => {
    const caller = await core.access.authenticate(bearerOf(c.req.raw), addressOf(c.req.raw));
    requireRead(caller, c.req.raw, c.req.path, /^$/);
    c.set("caller", caller);
    await next();
  });
  callerRoutes(app, dialect);
  egressRoutes(app, dialect);
  eventRoutes(app, dialect);
  keyRoutes(app, dialect);
  hostRoutes(app, dialect);
  return app;
}
