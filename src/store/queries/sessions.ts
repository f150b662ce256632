/**
 * Sessions. A sandbox shows the state of its current session, so a change of state updates both rows together: always
 * the session first and the sandbox second, so that transactions do not deadlock.
 */

import { sql } from "kysely";
import type { Session, TagValue } from "../../core/model/sandbox.ts";
import type { SessionSummary, Store } from "../../core/ports/store.ts";
import { durable } from "../durable.ts";
import type { Engine } from "../engines/engines.ts";
import type { Database } from "../tables.ts";
import { named } from "./creation-list.ts";
import { all, first, mapping } from "./rows.ts";
import type { Runs } from "./runs.ts";
import { listSessions } from "./session-list.ts";
import { isOpen, isOver, isRunning } from "./session-states.ts";
import { writeSessionTags } from "./session-tags.ts";

type SessionStore = Pick<
  Store,
  | "insertSession"
  | "getSession"
  | "getSessions"
  | "findSessionByShortId"
  | "moveSession"
  | "updateSession"
  | "addTotals"
  | "uncountedSessions"
  | "listSessions"
  | "listSessionSummaries"
  | "countSessions"
  | "dueSessions"
  | "nextExpiry"
  | "moveSessions"
  | "openSessions"
>;

const sessions = mapping<Session>({
  id: "text",
  shortId: "text",
  teamId: "text",
  projectId: "text",
  sandboxId: "text",
  sandboxName: "text",
  state: "text",
  vcpus: "real",
  memory: "real",
  timeout: "whole",
  lifetime: "text",
  region: "text",
  runtime: "text",
  cwd: "text",
  user: "text",
  env: "json",
  persistent: "flag",
  networkPolicy: "json",
  sourceSnapshotId: "text",
  requestedAt: "whole",
  createdAt: "whole",
  updatedAt: "whole",
  startedAt: "whole",
  resumedAt: "whole",
  expiresAt: "whole",
  pausedAt: "whole",
  pausedMs: "whole",
  lastActivityAt: "whole",
  requestedStopAt: "whole",
  stoppedAt: "whole",
  abortedAt: "whole",
  snapshottedAt: "whole",
  duration: "whole",
  cpuMs: "whole",
  ingressBytes: "whole",
  egressBytes: "whole",
  endCause: "text",
  endReason: "prose",
});

/** with the column that sorts the list */
const summaries = mapping<SessionSummary & Pick<Session, "createdAt">>({
  id: "text",
  state: "text",
  sourceSnapshotId: "text",
  requestedAt: "whole",
  startedAt: "whole",
  expiresAt: "whole",
  createdAt: "whole",
  tags: "json",
});
// In one statement with the session: two statements of a hundred rows each take longer.
const tagsOfSandbox = sql`(select tags from sandboxes where sandboxes.id = sessions.sandbox_id) as tags`;

// Worded like its index's condition.
const isUncounted = sql<boolean>`counted = 0 and ${isOver}`;

export function sessionStore(engine: Pick<Engine, "db" | "among">, runs: Runs, now: () => number): SessionStore {
  const { db } = engine;
  return {
    insertSession: (session, after) =>
      db.transaction().execute(async (tx) => {
        const sandbox = await tx
          .updateTable("sandboxes")
          .set({ current_session_id: session.id, state: session.state, state_changed_at: session.createdAt })
          .where("id", "=", session.sandboxId)
          .where("current_session_id", "=", after)
          .where("deleted_at", "is", null)
          .returning("tags")
          .executeTakeFirst();
        if (!sandbox) return false;
        await insertSessionRow(tx, runs, session, JSON.parse(sandbox.tags) as Record<string, TagValue>);
        return true;
      }),

    getSession: (id) => first(db.selectFrom("sessions").selectAll().where("id", "=", id), sessions.toValue),

    getSessions: async (ids) =>
      ids.length === 0
        ? []
        : all(
            db
              .selectFrom("sessions")
              .selectAll()
              .where("id", "in", [...new Set(ids)]),
            sessions.toValue,
          ),

    findSessionByShortId: (shortId) =>
      first(db.selectFrom("sessions").selectAll().where("short_id", "=", shortId), sessions.toValue),

    moveSession: durable((id, from, to, changes) =>
      db.transaction().execute(async (tx) => {
        const row = await tx
          .updateTable("sessions")
          .set({ ...sessions.toChanges(changes), state: to })
          .where("id", "=", id)
          .where("state", "in", from)
          .returningAll()
          .executeTakeFirst();
        if (!row) return undefined;
        await tx
          .updateTable("sandboxes")
          .set({ state: to, state_changed_at: changes.updatedAt ?? now() })
          .where("id", "=", row.sandbox_id)
          .where("current_session_id", "=", id)
          .execute();
        return sessions.toValue(row);
      }),
    ),

    updateSession: durable((id, states, changes) =>
      first(
        db
          .updateTable("sessions")
          // Sets the id to itself, because a statement must set something.
          .set({ ...sessions.toChanges(changes), id })
          .where("id", "=", id)
          .where("state", "in", states)
          .returningAll(),
        sessions.toValue,
      ),
    ),

    addTotals: (sessionId) =>
      db.transaction().execute(async (tx) => {
        const session = await tx
          .updateTable("sessions")
          .set({ counted: 1 })
          .where("id", "=", sessionId)
          .where("counted", "=", 0)
          .returning(["sandbox_id", "egress_bytes", "ingress_bytes", "cpu_ms", "duration"])
          .executeTakeFirst();
        if (!session) return;
        await tx
          .updateTable("sandboxes")
          .set((eb) => ({
            total_egress_bytes: eb("total_egress_bytes", "+", session.egress_bytes ?? 0),
            total_ingress_bytes: eb("total_ingress_bytes", "+", session.ingress_bytes ?? 0),
            total_cpu_ms: eb("total_cpu_ms", "+", session.cpu_ms ?? 0),
            total_duration_ms: eb("total_duration_ms", "+", session.duration ?? 0),
          }))
          .where("id", "=", session.sandbox_id)
          .execute();
      }),

    async uncountedSessions() {
      const rows = await db.selectFrom("sessions").select("id").where(isUncounted).execute();
      return rows.map(({ id }) => id);
    },

    listSessions: (query) =>
      listSessions(engine, query, { wanted: named(sessions.columns), toValue: sessions.toValue }),

    async listSessionSummaries(query) {
      const own = summaries.columns.filter((column) => column !== "tags");
      const wanted = sql.join([named(own), tagsOfSandbox]);
      const { items, ...page } = await listSessions(engine, query, { wanted, toValue: summaries.toValue });
      return { ...page, items: items.map(({ createdAt: _, ...rest }) => rest) };
    },

    countSessions: (query) => runs.count("sessions", query),

    dueSessions: (now, limit) =>
      all(
        db
          .selectFrom("sessions")
          .selectAll()
          .where(isRunning)
          .where("expires_at", "<=", now)
          .orderBy("expires_at")
          .orderBy("id")
          .limit(limit),
        sessions.toValue,
      ),

    async moveSessions(by) {
      await db
        .updateTable("sessions")
        .set((eb) => ({
          started_at: eb("started_at", "+", by),
          resumed_at: eb("resumed_at", "+", by),
          last_activity_at: eb("last_activity_at", "+", by),
          expires_at: eb("expires_at", "+", by),
        }))
        .where(isRunning)
        .execute();
    },

    async nextExpiry() {
      const row = await db
        .selectFrom("sessions")
        .select((eb) => eb.fn.min("expires_at").as("at"))
        .where(isRunning)
        .executeTakeFirst();
      return row?.at ?? undefined;
    },

    openSessions: () =>
      all(db.selectFrom("sessions").selectAll().where(isOpen).orderBy("created_at").orderBy("id"), sessions.toValue),
  };
}

/** inserts a session with its tags and count; must be the last step of a transaction */
export async function insertSessionRow(
  tx: Database,
  runs: Runs,
  session: Session,
  tags: Record<string, TagValue>,
): Promise<void> {
  await tx
    .insertInto("sessions")
    .values({ ...sessions.toRow(session), counted: 0 })
    .execute();
  await writeSessionTags(tx, [session], tags);
  await runs.add(tx, "sessions", session);
}
