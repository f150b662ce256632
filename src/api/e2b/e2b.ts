/** E2B's dialect: its routes put together, and which requests are its own. */

import type { Hono } from "hono";
import type { ApiDialect, Service } from "../kit/dialect.ts";
import { authenticated, type Dialect, type Env } from "./request.ts";
import { sandboxRoutes } from "./sandboxes.ts";
import { schemas } from "./schemas.ts";

const paths = /^\/(sandboxes|snapshots|templates|volumes|secrets|teams|api-keys|access-tokens)(\/|$)/;
/** other dialects have these paths too, with other credentials */
const versionedPaths = /^\/v[23]\/(sandboxes|templates)(\/|$)/;

export function createE2b(service: Service): ApiDialect {
  const dialect: Dialect = { ...service, schemas: schemas(service.limits) };
  const app = controlPlane(dialect);
  return {
    mounts: [
      { path: paths, app, forPages: true },
      { path: versionedPaths, headers: (headers) => headers.has("x-api-key"), app, forPages: true },
    ],
  };
}

/** everything that takes an API key */
function controlPlane(dialect: Dialect): Hono<Env> {
  const app = authenticated(dialect);
  sandboxRoutes(app, dialect);
  return app;
}
