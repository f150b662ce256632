/**
 * Version 1 of Vercel's wire, for the SDK up to 1.10 and the command line up to 2.5. What it calls a sandbox is a
 * session: each of its sandboxes is one that is never kept, is named by the id of its only session, and is the same
 * sandbox on every other wire. A session that was begun there is a sandbox here, too.
 */

import type { Hono } from "hono";
import { commandRoutes } from "../commands.ts";
import { fileRoutes } from "../files.ts";
import type { Dialect, Env } from "../request.ts";
import type { SessionWords } from "../session-words.ts";
import { snapshotRoutes } from "../snapshots.ts";
import { sandboxRoutes } from "./sandboxes.ts";
import { snapshotList } from "./snapshots.ts";
import * as wire from "./wire.ts";

const sandbox = "/v1/sandboxes/:sessionId";

const words: SessionWords = {
  session: sandbox,
  kill: `${sandbox}/:commandId/kill`,
  runBody: "v1RunBody",
  command: wire.command,
};

export function firstVersion(app: Hono<Env>, dialect: Dialect): void {
  // Before the sandboxes, at whose ids' place this word stands.
  snapshotList(app, dialect);
  snapshotRoutes(app, dialect, "/v1/sandboxes/snapshots");
  sandboxRoutes(app, dialect);
  commandRoutes(app, dialect, words);
  fileRoutes(app, dialect, words);
}
