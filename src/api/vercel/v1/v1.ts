/**
 * Version 1 of Vercel's wire, for the SDK up to 1.10 and the command line up to 2.5. Its sandboxes are our sessions.
 * A sandbox made here is not persistent, is named by the id of its only session, and is visible on every other wire.
 * Sessions begun on other wires are visible here as sandboxes.
 */

import type { Hono } from "hono";
import type { Dialect, Env } from "../request.ts";
import { commandRoutes } from "../sessions/commands.ts";
import { fileRoutes } from "../sessions/files.ts";
import type { SessionWords } from "../sessions/session-words.ts";
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
  // Before the sandboxes, because "snapshots" is in place of a sandbox's id.
  snapshotList(app, dialect);
  snapshotRoutes(app, dialect, "/v1/sandboxes/snapshots");
  sandboxRoutes(app, dialect);
  commandRoutes(app, dialect, words);
  fileRoutes(app, dialect, words);
}
