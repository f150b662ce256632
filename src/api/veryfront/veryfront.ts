/** Veryfront's dialect: registers its routes. */

import type { Hono } from "hono";
import type { ApiDialect, Service } from "../kit/dialect.ts";
import { commandRoutes } from "./commands.ts";
import { veryfrontExamples } from "./examples.ts";
import { fileRoutes } from "./files.ts";
import { authenticated, type Dialect, type Env } from "./request.ts";
import { schemas } from "./schemas.ts";
import { sessionRoutes } from "./sessions.ts";

export function createVeryfront(service: Service): ApiDialect {
  return {
    wire: "veryfront",
    examples: veryfrontExamples,
    mounts: [{ path: /^\/(sandbox-sessions|veryfront)(\/|$)/, app: veryfrontApi(service), forPages: true }],
  };
}

/** the API below /sandbox-sessions, and each session's endpoint below /veryfront */
export function veryfrontApi(options: Omit<Dialect, "schemas">): Hono<Env> {
  const dialect: Dialect = { ...options, schemas: schemas(options.limits) };
  const app = authenticated(dialect);
  sessionRoutes(app, dialect);
  commandRoutes(app, dialect);
  fileRoutes(app, dialect);
  return app;
}
