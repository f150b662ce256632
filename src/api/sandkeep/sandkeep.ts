/**
 * Our own API below /sandkeep/v1, for what no vendor's API offers. Every request needs a key. Answers are JSON, errors
 * are `{"error":{"code","message"}}`.
 */

import { type Context, Hono } from "hono";
import type { Caller } from "../../core/model/sandbox.ts";
import { authenticate } from "../kit/authentication.ts";
import type { ApiDialect, Service } from "../kit/dialect.ts";
import { buildRoutes } from "./builds.ts";
import { callerRoutes } from "./caller.ts";
import { egressRoutes } from "./egress.ts";
import { errorResponse, nothingHere } from "./errors.ts";
import { eventRoutes } from "./events.ts";
import { hostRoutes } from "./host.ts";
import { keyRoutes } from "./keys.ts";
import { metricsApi } from "./metrics.ts";

/** What the routes get from the daemon. */
export type Dialect = Pick<Service, "core" | "logError">;

export type Env = { Variables: { caller: Caller } };
export type SandkeepContext = Context<Env>;

export function createSandkeep(service: Service): ApiDialect {
  return {
    mounts: [
      { path: /^\/metrics$/, app: metricsApi(service) },
      { path: /^\/sandkeep\/v1(\/|$)/, app: sandkeepApi(service), forPages: true },
    ],
  };
}

export function sandkeepApi(dialect: Dialect): Hono<Env> {
  const { core, logError } = dialect;
  const app = new Hono<Env>().basePath("/sandkeep/v1");
  app.onError((error) => errorResponse(error, logError));
  app.notFound(() => errorResponse(nothingHere(), logError));
  app.use(async (c, next) => {
    c.set("caller", await authenticate(core, c.req));
    await next();
  });
  buildRoutes(app, dialect);
  callerRoutes(app, dialect);
  egressRoutes(app, dialect);
  eventRoutes(app, dialect);
  keyRoutes(app, dialect);
  hostRoutes(app, dialect);
  return app;
}
