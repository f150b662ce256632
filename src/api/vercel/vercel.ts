/** Vercel's dialect, versions 1 to 4: registers its routes and mounts. */

import type { Hono } from "hono";
import type { ApiDialect, Service } from "../kit/dialect.ts";
import { json } from "../kit/http.ts";
import { accountRoutes, loginRoutes } from "./account/account.ts";
import { driveRoutes } from "./drives.ts";
import { vercelExamples } from "./examples.ts";
import { defaultLimits } from "./limits.ts";
import { authenticated, type Dialect, type Env, open } from "./request.ts";
import { sandboxRoutes } from "./sandboxes.ts";
import { schemas } from "./schemas.ts";
import { commandRoutes, stdinRoute } from "./sessions/commands.ts";
import { fileRoutes } from "./sessions/files.ts";
import { Interactive, interactiveRoutes } from "./sessions/interactive.ts";
import { sessionRoutes } from "./sessions/sessions.ts";
import { snapshotLists, snapshotRoutes } from "./snapshots.ts";
import { firstVersion } from "./v1/v1.ts";

/** `jwks` is the JSON Web Key Set for verifying the tokens of forwarded requests */
export function createVercel(service: Service, jwks: () => object): ApiDialect {
  const limits = { ...defaultLimits, ...service.limits };
  const dialect: Dialect = { ...service, limits, schemas: schemas(limits) };
  const interactive = new Interactive(dialect);
  const app = vercelApi(dialect, interactive);
  const login = vercelLogin(dialect);
  return {
    wire: "vercel",
    examples: vercelExamples,
    mounts: [
      { path: /^\/\.well-known\/jwks$/, app: { fetch: () => json(jwks()) } },
      { path: /^\/(\.well-known\/openid-configuration$|api\/login\/|login\/device$)/, app: login },
      // No other dialect has these paths, so a request without a key gets Vercel's error.
      { path: /^\/(api\/v\d+\/|v1\/sandboxes(\/|$))/, app, forPages: true },
      // Requests without any credential are refused here; those with another vendor's key go to its dialect.
      { path: /^\/v\d+\//, headers: mayBeOurs, app, forPages: true },
    ],
    upgrade: (request, socket, head) => interactive.upgrade(request, socket, head),
  };
}

function mayBeOurs(headers: Headers): boolean {
  return headers.has("authorization") || !headers.has("x-api-key");
}

/** all routes that need a token; paths begin with the version */
export function vercelApi(dialect: Dialect, interactive: Interactive): Hono<Env> {
  const app = authenticated(dialect);
  // Before the sandboxes, because these paths have a fixed word in place of a sandbox's name.
  sessionRoutes(app, dialect);
  commandRoutes(app, dialect);
  stdinRoute(app, dialect);
  fileRoutes(app, dialect);
  interactiveRoutes(app, dialect, interactive);
  snapshotLists(app, dialect);
  snapshotRoutes(app, dialect);
  driveRoutes(app, dialect);
  sandboxRoutes(app, dialect);
  firstVersion(app, dialect);
  accountRoutes(app, dialect);
  return app;
}

/** routes without authentication, for the login */
export function vercelLogin(dialect: Dialect): Hono<Env> {
  const app = open(dialect.logError);
  loginRoutes(app, dialect);
  return app;
}
