/**
 * A sandbox's log on E2B's API: when the sandbox and its commands started and ended. The log does not contain the
 * output of commands.
 */

import type { Hono } from "hono";
import type { Command, Session } from "../../../core/model/sandbox.ts";
import type { Booted } from "../../../core/sandboxes/sandboxes.ts";
import { json } from "../../kit/http.ts";
import { type Dialect, type E2bContext, type Env, queryOf, sandboxOf } from "../request.ts";
import * as wire from "../wire.ts";

type Level = "debug" | "info" | "warn" | "error";

interface Entry {
  at: number;
  level: Level;
  message: string;
  fields: Record<string, string>;
}

const weights: Record<Level, number> = { debug: 0, info: 1, warn: 2, error: 3 };
const logger = "sandkeep";

export function logRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  // Each line is JSON, which E2B's command line parses.
  app.get("/sandboxes/:id/logs", async (c) => {
    const { start = 0, limit } = queryOf(c, schemas.logsQuery);
    const entries = (await entriesOf(c)).filter(({ at }) => at >= start).slice(0, limit);
    const logs = entries.map(({ at, level, message, fields }) => ({
      timestamp: wire.time(at),
      line: JSON.stringify({ timestamp: wire.time(at), level, logger, message, ...fields }),
    }));
    return json({ logs, logEntries: entries.map(printed) });
  });

  app.get("/v2/sandboxes/:id/logs", async (c) => {
    const { cursor, limit, direction, level = "debug", search = "" } = queryOf(c, schemas.logs2Query);
    const wanted = (await entriesOf(c)).filter(
      (entry) => weights[entry.level] >= weights[level] && entry.message.includes(search),
    );
    const ordered = direction === "forward" ? wanted : wanted.toReversed();
    const isBehind = ({ at }: Entry) => cursor === undefined || (direction === "forward" ? at >= cursor : at <= cursor);
    return json({ logs: ordered.filter(isBehind).slice(0, limit).map(printed) });
  });

  /** the entries of the current or last session, oldest first */
  async function entriesOf(c: E2bContext): Promise<Entry[]> {
    const booted = await sandboxOf(c, dialect);
    const owner = c.get("owner");
    const commands = await core.commands.list(owner, booted.session.id);
    const { items } = await core.sessions.ofSandbox(owner, booted.sandbox.name, { limit: 2, order: "desc" });
    return [...sessionEntries(booted, items[1]), ...commands.flatMap(commandEntries)].sort(
      (one, other) => one.at - other.at,
    );
  }
}

function printed({ at, level, message, fields }: Entry): object {
  return { timestamp: wire.time(at), level, message, fields: { logger, ...fields } };
}

function sessionEntries({ session }: Booted, before: Session | undefined): Entry[] {
  const { startedAt, pausedAt, resumedAt, stoppedAt, endReason = "" } = session;
  return [
    ...(startedAt === undefined ? [] : [startEntry(startedAt, before)]),
    ...(resumedAt === undefined ? [] : [entry(resumedAt, "info", "Sandbox resumed")]),
    ...(pausedAt === undefined ? [] : [entry(pausedAt, "info", "Sandbox paused")]),
    ...(stoppedAt === undefined
      ? []
      : [
          entry(stoppedAt, "info", pausedAt === undefined ? "Sandbox paused" : "Sandbox stopped", {
            reason: endReason,
          }),
        ]),
  ];
}

/** says if the session before was paused and its memory is gone */
function startEntry(at: number, before: Session | undefined): Entry {
  if (before?.state !== "aborted" || before.pausedAt === undefined) return entry(at, "info", "Sandbox started");
  const fields = { reason: before.endReason ?? "" };
  return entry(at, "warn", "Sandbox resumed from its files: its memory is gone", fields);
}

function commandEntries({ id, name, args, cwd, startedAt, endedAt, exitCode }: Command): Entry[] {
  const command = [name, ...args].join(" ").slice(0, 1000);
  const began = entry(startedAt, "info", `Process started: ${command}`, { id, cwd });
  if (endedAt === undefined) return [began];
  const fields = { id, exitCode: String(exitCode ?? "") };
  return [began, entry(endedAt, exitCode === 0 ? "info" : "error", `Process ended: ${command}`, fields)];
}

function entry(at: number, level: Level, message: string, fields: Record<string, string> = {}): Entry {
  return { at, level, message, fields };
}
