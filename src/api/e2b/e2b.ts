/** E2B's dialect: registers its routes, and says which requests it serves. */

import type { Hono } from "hono";
import type { ApiDialect, Service } from "../kit/dialect.ts";
import { IssuedTokens } from "./access/issued-tokens.ts";
import { loginRoutes } from "./access/login.ts";
import { envdMounts } from "./envd/envd.ts";
import { e2bExamples } from "./examples.ts";
import { Interpreters } from "./interpreter/interpreters.ts";
import { missingRoutes } from "./missing.ts";
import { authenticated, type Dialect, type Env } from "./request.ts";
import { lifecycleRoutes } from "./sandboxes/lifecycle.ts";
import { listRoutes } from "./sandboxes/list.ts";
import { logRoutes } from "./sandboxes/logs.ts";
import { metricRoutes } from "./sandboxes/metrics.ts";
import { networkRoutes } from "./sandboxes/network.ts";
import { portNames } from "./sandboxes/ports.ts";
import { sandboxRoutes } from "./sandboxes/sandboxes.ts";
import { snapshotRoutes } from "./sandboxes/snapshots.ts";
import { schemas } from "./schemas.ts";
import { secretRoutes } from "./secrets.ts";
import { teamRoutes } from "./teams.ts";
import { templateRoutes } from "./templates/templates.ts";
import { templateFiles } from "./templates/uploads.ts";
import { volumeFiles } from "./volumes/volume-files.ts";
import { volumeRoutes } from "./volumes/volumes.ts";

const paths = /^\/(sandboxes|snapshots|templates|volumes|secrets|teams|api-keys|access-tokens|events)(\/|$)/;
/** paths that other dialects share; the credential tells them apart */
const versionedPaths = /^\/v[23]\/(sandboxes|templates)(\/|$)/;

export function createE2b(service: Service): ApiDialect {
  const issued = new IssuedTokens();
  const interpreters = new Interpreters({ ...service, issued });
  const dialect: Dialect = { ...service, schemas: schemas(service.limits), issued, interpreters };
  const app = controlPlane(dialect);
  return {
    examples: e2bExamples,
    ports: portNames(dialect),
    wire: "e2b",
    mounts: [
      ...envdMounts(dialect),
      { path: /^\/volumecontent\//, app: volumeFiles(dialect), forPages: true },
      { path: /^\/template-files\//, app: templateFiles(dialect) },
      { path: /^\/docs\/api\/cli(\/|$)/, app: loginRoutes(dialect) },
      { path: paths, app, forPages: true },
      { path: versionedPaths, headers: (headers) => headers.has("x-api-key"), app, forPages: true },
    ],
  };
}

/** all routes that take an API key */
function controlPlane(dialect: Dialect): Hono<Env> {
  const app = authenticated(dialect);
  // Before the sandboxes, because "/sandboxes/metrics" has a fixed word in place of an id.
  metricRoutes(app, dialect);
  listRoutes(app, dialect);
  sandboxRoutes(app, dialect);
  lifecycleRoutes(app, dialect);
  networkRoutes(app, dialect);
  snapshotRoutes(app, dialect);
  logRoutes(app, dialect);
  volumeRoutes(app, dialect);
  templateRoutes(app, dialect);
  secretRoutes(app, dialect);
  teamRoutes(app, dialect);
  missingRoutes(app);
  return app;
}
