/** Vercel's dialect, versions 1 to 4: its routes put together. */

import type { Hono } from "hono";
import { accountRoutes, loginRoutes } from "./account.ts";
import { commandRoutes, stdinRoute } from "./commands.ts";
import { driveRoutes } from "./drives.ts";
import { fileRoutes } from "./files.ts";
import { type Interactive, interactiveRoutes } from "./interactive.ts";
import { authenticated, type Dialect, type Env, open } from "./request.ts";
import { sandboxRoutes } from "./sandboxes.ts";
import { sessionRoutes } from "./sessions.ts";
import { snapshotLists, snapshotRoutes } from "./snapshots.ts";
import { firstVersion } from "./v1/v1.ts";

/** everything that needs a token; paths begin with the version */
export function vercelApi(dialect: Dialect, interactive: Interactive): Hono<Env> {
  const app = authenticated(dialect);
  // Before the sandboxes, at whose names' place these words stand.
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

/** what anybody may ask: how to log in */
export function vercelLogin(dialect: Dialect): Hono<Env> {
  const app = open(dialect.trouble);
  loginRoutes(app, dialect);
  return app;
}
