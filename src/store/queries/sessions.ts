/**
 * Sessions. A sandbox shows the state of its current session, so a change of state updates both rows together: always
 * the session first and the sandbox second, so that transactions do not deadlock.
 */

import { type CompiledQuery, sql } from "kysely";
import type { Session, SessionState, TagValue } from "../../core/model/sandbox.ts";
import type { SessionChanges, SessionSummary, Store } from "../../core/ports/store.ts";
import { durable } from "../durable.ts";
import type { Engine } from "../engines/engines.ts";
import { type Steps, statement, step } from "../engines/statements.ts";
import type { Database, SessionRow } from "../tables.ts";
import { named } from "./lists/creation-list.ts";
import type { Runs } from "./lists/runs.ts";
import { listSessions } from "./lists/session-list.ts";
import { sessionTagInserts } from "./lists/session-tags.ts";
import { all, first, mapping } from "./rows.ts";
import { isOpen, isOver, isRunning } from "./session-states.ts";

type SessionStore = Pick<
  Store,
  | "insertSession"
  | "getSession"
  | "getSessions"
  | "findSessionByShortId"
  | "moveSession"
  | "endSession"
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
  | "sessionRuns"
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

export function sessionStore(
  engine: Pick<Engine, "db" | "statements" | "among">,
  runs: Runs,
  now: () => number,
): SessionStore {
  const { db, statements } = engine;
  const insertion = sessionInsertion(db, runs);
  const byId = statement(({ id }: { id: string }) => db.selectFrom("sessions").selectAll().where("id", "=", id));
  /** changes a session in one of these states */
  const change = memo((states: string) =>
    statement(({ session, ...columns }: Partial<SessionRow> & { session: string }) =>
      db
        .updateTable("sessions")
        .set(columns)
        .where("id", "=", session)
        .where("state", "in", states.split(" ") as SessionState[])
        .returningAll(),
    ),
  );
  const showState = statement((shown: { sandbox: string; session: string; state: SessionState; at: number }) =>
    db
      .updateTable("sandboxes")
      .set({ state: shown.state, state_changed_at: shown.at })
      .where("id", "=", shown.sandbox)
      .where("current_session_id", "=", shown.session),
  );
  const count = statement(({ id }: { id: string }) =>
    db
      .updateTable("sessions")
      .set({ counted: 1 })
      .where("id", "=", id)
      .where("counted", "=", 0)
      .returning(["sandbox_id", "egress_bytes", "ingress_bytes", "cpu_ms", "duration"]),
  );
  const addToSandbox = statement((sum: Use) =>
    db
      .updateTable("sandboxes")
      .set((eb) => ({
        total_egress_bytes: eb("total_egress_bytes", "+", sum.egress),
        total_ingress_bytes: eb("total_ingress_bytes", "+", sum.ingress),
        total_cpu_ms: eb("total_cpu_ms", "+", sum.cpu),
        total_duration_ms: eb("total_duration_ms", "+", sum.duration),
      }))
      .where("id", "=", sum.id),
  );
  const expiry = statement(() =>
    db
      .selectFrom("sessions")
      .select((eb) => eb.fn.min("expires_at").as("at"))
      .where(isRunning),
  );

  /** the steps that move a session, if it is in one of the `from` states, and show its state in its sandbox */
  function* move(
    id: string,
    from: readonly SessionState[],
    to: SessionState,
    changes: SessionChanges,
    others: Partial<SessionRow> = {},
  ): Steps<SessionRow | undefined> {
    const columns = { ...sessions.toChanges(changes), ...others, state: to };
    const [row] = yield* step(change(from.join(" "))({ ...columns, session: id }));
    const at = changes.updatedAt ?? now();
    if (row) yield* step(showState({ sandbox: row.sandbox_id, session: id, state: to, at }));
    return row;
  }

  return {
    insertSession: (session, after) =>
      statements.transaction(function* () {
        const [sandbox] = yield* step(
          db
            .updateTable("sandboxes")
            .set({ current_session_id: session.id, state: session.state, state_changed_at: session.createdAt })
            .where("id", "=", session.sandboxId)
            .where("current_session_id", "=", after)
            .where("deleted_at", "is", null)
            .returning("tags")
            .compile(),
        );
        if (!sandbox) return false;
        yield* insertion(session, JSON.parse(sandbox.tags) as Record<string, TagValue>);
        return true;
      }),

    async getSession(id) {
      const row = await statements.first(byId({ id }));
      return row && sessions.toValue(row);
    },

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

    moveSession: durable(
      (id, from, to, changes) =>
        statements.transaction(function* () {
          const row = yield* move(id, from, to, changes);
          return row && sessions.toValue(row);
        }),
      // No caller is answered while a session is ending. After a loss of power, its machine is gone in any case.
      (_, __, to) => to !== "stopping" && to !== "snapshotting",
    ),

    endSession: durable((id, from, to, changes) =>
      statements.transaction(function* () {
        const row = yield* move(id, from, to, changes, { counted: 1 });
        if (row) yield* step(addToSandbox(useOf(row)));
        return row && sessions.toValue(row);
      }),
    ),

    updateSession: durable(async (id, states, changes) => {
      // Sets the id to itself, because a statement must set something.
      const row = await statements.first(change(states.join(" "))({ ...sessions.toChanges(changes), id, session: id }));
      return row && sessions.toValue(row);
    }),

    addTotals: (sessionId) =>
      statements.transaction(function* () {
        const [session] = yield* step(count({ id: sessionId }));
        if (session) yield* step(addToSandbox(useOf(session)));
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
      return (await statements.first(expiry({})))?.at ?? undefined;
    },

    openSessions: () =>
      all(db.selectFrom("sessions").selectAll().where(isOpen).orderBy("created_at").orderBy("id"), sessions.toValue),

    async sessionRuns({ projectId, after, before, limit }) {
      const ended = sql<
        number | null
      >`coalesce(paused_at, stopped_at, aborted_at, case when ${isOver} then updated_at end)`.as("ended_at");
      const runs = db
        .selectFrom("sessions")
        .select(["id", "started_at", ended])
        .where("project_id", "=", projectId)
        .where("started_at", "is not", null);
      const [recent, open] = await Promise.all([
        runs
          .where("created_at", ">", after)
          .where("created_at", "<", before)
          .orderBy("created_at", "desc")
          .limit(limit)
          .execute(),
        runs.where(isOpen).execute(),
      ]);
      const all = new Map([...recent, ...open].map((row) => [row.id, row]));
      return [...all.values()].map(({ started_at: at, ended_at: end }) => ({
        startedAt: Number(at),
        ...(end !== null && { endedAt: Number(end) }),
      }));
    },
  };
}

/** the statements that insert a session with its tags and count; must be the last ones of a transaction */
export function sessionInsertion(db: Database, runs: Runs): SessionInsertion {
  const insertion = statement((row: SessionRow) => db.insertInto("sessions").values(row));
  return (session, tags) => [
    insertion({ ...sessions.toRow(session), counted: 0 }),
    ...sessionTagInserts(db, session, tags),
    ...runs.add("sessions", session),
  ];
}

export type SessionInsertion = (session: Session, tags: Record<string, TagValue>) => CompiledQuery[];

/** What a session used, and the id of its sandbox. */
interface Use {
  id: string;
  egress: number;
  ingress: number;
  cpu: number;
  duration: number;
}

function useOf(row: Pick<SessionRow, "sandbox_id" | "egress_bytes" | "ingress_bytes" | "cpu_ms" | "duration">): Use {
  return {
    id: row.sandbox_id,
    egress: row.egress_bytes ?? 0,
    ingress: row.ingress_bytes ?? 0,
    cpu: row.cpu_ms ?? 0,
    duration: row.duration ?? 0,
  };
}

/** one value for each key, made when it is first needed */
function memo<T>(make: (key: string) => T): (key: string) => T {
  const known = new Map<string, T>();
  return (key) => {
    const value = known.get(key) ?? make(key);
    known.set(key, value);
    return value;
  };
}
