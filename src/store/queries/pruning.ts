/**
 * Deletes old sessions with their commands, tag rows and deleted snapshots, and a deleted sandbox with its last
 * session. Statements of their own first delete what may have many rows, so that the transaction that deletes the
 * session is short. An ended session never runs again, so a prunable one stays prunable.
 */

import { setImmediate as nextTurn } from "node:timers/promises";
import { type RawBuilder, sql } from "kysely";
import type { PrunableSession, PrunePage, PruneQuery, Store } from "../../core/ports/store.ts";
import type { Engine } from "../engines/engines.ts";
import type { Database } from "../tables.ts";
import type { Runs } from "./lists/runs.ts";
import { type TaggedSession, type TagKey, tagKeysOf } from "./lists/session-tags.ts";
import { isOver } from "./session-states.ts";

type PruningStore = Pick<Store, "prunableSessions" | "pruneSessions" | "sessionBehind" | "compactCounts">;
type PruningEngine = Pick<Engine, "db" | "among" | "rows" | "rowLock" | "lazyCommit" | "leastPruned">;

/** most rows that one statement deletes */
const rowsAtOnce = 50;

const isPrunable = sql<boolean>`sessions.${isOver} and sessions.counted = 1`;
const endedAt = sql<number>`coalesce(sessions.stopped_at, sessions.aborted_at, sessions.updated_at)`;

/** A row of the list, and whether it may be deleted, as 0 and 1. */
interface Candidate {
  id: string;
  at: number;
  prunable: number;
  /** whether it has snapshots */
  snapshots: number;
}

export function pruningStore(engine: PruningEngine, runs: Runs): PruningStore {
  const { db } = engine;
  return {
    async prunableSessions(query) {
      const { candidates, next } = await candidatesOf(db, query);
      const snapshots = await deletedSnapshotsOf(engine, candidates);
      const sessions = candidates.map(
        ({ id, at }): PrunableSession => ({ id, createdAt: at, runtimeSnapshots: snapshots.get(id) ?? [] }),
      );
      return { sessions, atLeast: engine.leastPruned, ...(next !== undefined && { next }) } satisfies PrunePage;
    },

    async pruneSessions(ids) {
      const going = [...ids];
      if (going.length === 0) return 0;
      const belongings = await belongingsOf(engine, going);
      if (belongings.some(({ commands }) => commands === 1)) await deleteCommands(engine, going);
      if (belongings.some(({ snapshots }) => snapshots === 1)) await deleteSnapshots(engine, runs, going);
      const cleared = await deleteManyTags(engine, belongings);
      return db.transaction().execute((tx) => deleteSessions({ ...engine, db: tx }, runs, going, cleared));
    },

    sessionBehind: (projectId, newer) => runs.behindNewest("sessions", projectId, newer),

    async compactCounts(projectId) {
      await runs.join("sessions", projectId);
      await runs.join("snapshots", projectId);
    },
  };
}

/** the deletable ones of the next rows; whole milliseconds, of each the last first */
async function candidatesOf(db: Database, query: PruneQuery): Promise<{ candidates: Candidate[]; next?: number }> {
  const { after, limit, endedBefore = Number.MIN_SAFE_INTEGER, upTo } = query;
  // A session created later cannot have ended before.
  const before = Math.max(endedBefore, (upTo?.at ?? Number.MIN_SAFE_INTEGER) + 1);
  const from = sql<boolean>`created_at > ${after ?? Number.MIN_SAFE_INTEGER} and created_at < ${before}`;
  const rows = await readCandidates(db, query, from, "asc", limit);
  const last = rows.at(-1)?.at;
  if (last === undefined) return { candidates: [] };
  if (rows.length < limit) return { candidates: prunable(rows) };
  // The last millisecond may have more rows than this read.
  const whole = rows.filter(({ at }) => at < last);
  const end = whole.at(-1)?.at;
  if (end !== undefined) return { candidates: prunable(whole), next: end };
  const newest = await readCandidates(db, query, sql`created_at = ${last}`, "desc", limit);
  return { candidates: prunable(newest.toReversed()), next: last };
}

/** of rows in order: of each millisecond those after which no row stays, the last first */
function prunable(rows: Candidate[]): Candidate[] {
  return [...Map.groupBy(rows, ({ at }) => at).values()].flatMap((group) => {
    const lastFirst = group.toReversed();
    const stays = lastFirst.findIndex(({ prunable }) => prunable === 0);
    return stays === -1 ? lastFirst : lastFirst.slice(0, stays);
  });
}

async function readCandidates(
  db: Database,
  query: PruneQuery,
  condition: RawBuilder<boolean>,
  order: "asc" | "desc",
  limit: number,
): Promise<Candidate[]> {
  const sign = sql.raw(order);
  const { rows } = await sql<Candidate>`
    select id, created_at as at, case when ${mayGo(query)} then 1 else 0 end as prunable, ${has("snapshots")} as snapshots
    from sessions where project_id = ${query.projectId} and ${condition}
    order by created_at ${sign}, id ${sign} limit ${limit}`.execute(db);
  return rows;
}

/** whether it is over, a rule lets it go, and nothing needs it */
function mayGo({ endedBefore, upTo, settledBefore }: PruneQuery): RawBuilder<boolean> {
  const rules = [
    ...(endedBefore === undefined ? [] : [sql<boolean>`${endedAt} < ${endedBefore}`]),
    ...(upTo?.id === undefined ? [] : [sql<boolean>`(sessions.created_at, sessions.id) <= (${upTo.at}, ${upTo.id})`]),
  ];
  if (rules.length === 0) return sql`1 = 0`;
  const needs = [
    sql`sandboxes where sandboxes.id = sessions.sandbox_id and current_session_id = sessions.id
      and (deleted_at is null or deleted_at >= ${settledBefore})`,
    sql`commands where commands.session_id = sessions.id and commands.ended_at is null`,
    sql`drives where drives.session_id = sessions.id`,
    sql`snapshots where snapshots.session_id = sessions.id and ${isNeeded}`,
  ];
  return sql`${isPrunable} and ${endedAt} < ${settledBefore} and (${sql.join(rules, sql` or `)})
    and ${sql.join(
      needs.map((rows) => sql`${anyOf(rows)} = 0`),
      sql` and `,
    )}`;
}

/**
 * 1 if a session has any of these rows, otherwise 0. This is not `exists`, because PostgreSQL may answer that for all
 * sessions at once and read a whole table for each page.
 */
function anyOf(rows: RawBuilder<unknown>): RawBuilder<number> {
  return sql`coalesce((select 1 from ${rows} limit 1), 0)`;
}

// A place in the list of snapshots counts from the oldest of its millisecond, so the last of them must go first.
const isNeeded = sql<boolean>`(
  snapshots.state <> 'deleted'
  or exists (select 1 from sandboxes
    where current_snapshot_id = snapshots.id and deleted_at is null and current_snapshot_id <> '')
  or exists (select 1 from snapshots as newer
    where newer.project_id = snapshots.project_id and newer.created_at = snapshots.created_at
      and newer.id > snapshots.id and newer.session_id <> snapshots.session_id)
)`;

async function deletedSnapshotsOf(
  { db, among }: PruningEngine,
  candidates: Candidate[],
): Promise<Map<string, string[]>> {
  const ids = candidates.flatMap(({ id, snapshots }) => (snapshots === 1 ? [id] : []));
  if (ids.length === 0) return new Map();
  const { rows } = await sql<{ session_id: string; runtime_id: string }>`
    select session_id, runtime_id from snapshots where ${among("session_id", ids)}`.execute(db);
  const found = new Map<string, string[]>();
  for (const { session_id, runtime_id } of rows) found.set(session_id, [...(found.get(session_id) ?? []), runtime_id]);
  return found;
}

async function deleteCommands({ db, among }: PruningEngine, ids: string[]): Promise<void> {
  await untilNone(async () => {
    const { rows } = await sql`
      delete from commands where id in (select id from commands where ${among("session_id", ids)} limit ${rowsAtOnce})
      returning id`.execute(db);
    return rows.length;
  });
}

async function deleteSnapshots({ db, among }: PruningEngine, runs: Runs, ids: string[]): Promise<void> {
  await untilNone(() =>
    db.transaction().execute(async (tx) => {
      const { rows } = await sql<{ projectId: string; createdAt: number }>`
        delete from snapshots where id in (
          select id from snapshots where ${among("session_id", ids)} and state = 'deleted'
          order by created_at, id desc limit ${rowsAtOnce})
        returning project_id as "projectId", created_at as "createdAt"`.execute(tx);
      await runs.remove(tx, "snapshots", rows);
      return rows.length;
    }),
  );
}

/** repeats a statement until it deletes fewer rows than the limit */
async function untilNone(deleteSome: () => Promise<number>): Promise<void> {
  while ((await deleteSome()) === rowsAtOnce) await nextTurn();
}

/** A session, its sandbox's tags as JSON, and whether it has commands and snapshots. */
interface Belongings extends TaggedSession {
  tags: string;
  commands: number;
  snapshots: number;
}

async function belongingsOf({ db, among }: PruningEngine, ids: string[]): Promise<Belongings[]> {
  const { rows } = await sql<Belongings>`
    select sessions.id, sessions.project_id as "projectId", sessions.created_at as "createdAt", sandboxes.tags,
      ${has("commands")} as commands, ${has("snapshots")} as snapshots
    from sessions join sandboxes on sandboxes.id = sessions.sandbox_id
    where ${among("sessions.id", ids)}`.execute(db);
  return rows;
}

/** whether a session has rows in this table, as 0 and 1 */
function has(table: "commands" | "snapshots"): RawBuilder<number> {
  return anyOf(sql`${sql.table(table)} where session_id = sessions.id`);
}

/** deletes the tag rows of sessions with many of them; returns those sessions' tags at that time, by id */
async function deleteManyTags(engine: PruningEngine, belongings: Belongings[]): Promise<Map<string, string>> {
  const cleared = new Map<string, string>();
  for (const { tags, ...session } of belongings) {
    const keys = tagKeysOf(session, JSON.parse(tags));
    if (keys.length <= rowsAtOnce) continue;
    for (let at = 0; at < keys.length; at += rowsAtOnce) {
      await deleteTagRows(engine, keys.slice(at, at + rowsAtOnce));
      await nextTurn();
    }
    cleared.set(session.id, tags);
  }
  return cleared;
}

async function deleteTagRows({ db, rows }: PruningEngine, keys: TagKey[]): Promise<void> {
  if (keys.length === 0) return;
  const given = rows(["text", "text", "text", "bigint", "text"], keys);
  await sql`
    delete from session_tags where (project_id, key, value, created_at, session_id) in ${given}`.execute(db);
}

/** sessions first and sandboxes second, as everywhere; last the rows that other transactions wait for */
async function deleteSessions(
  engine: PruningEngine,
  runs: Runs,
  ids: string[],
  cleared: Map<string, string>,
): Promise<number> {
  const { db: tx, among, rowLock, lazyCommit } = engine;
  // Sessions that come back after a crash are deleted by the next round.
  if (lazyCommit) await sql.raw(lazyCommit).execute(tx);
  const { rows: gone } = await sql<TaggedSession & { sandboxId: string }>`
    delete from sessions where ${among("id", ids)} and ${isPrunable}
      and case when exists (select 1 from commands where commands.session_id = sessions.id)
        or exists (select 1 from snapshots where snapshots.session_id = sessions.id)
        or exists (select 1 from sandboxes where sandboxes.id = sessions.sandbox_id
          and current_session_id = sessions.id and deleted_at is null) then 0 else 1 end = 1
    returning id, project_id as "projectId", created_at as "createdAt", sandbox_id as "sandboxId"`.execute(tx);
  if (gone.length === 0) return 0;
  // A change of tags locks the sandbox's row, so these are the current ones.
  const { rows: sandboxes } = await sql<{ id: string; tags: string }>`
    select id, tags from sandboxes where ${among("id", [...new Set(gone.map(({ sandboxId }) => sandboxId))])}
    ${sql.raw(rowLock)}`.execute(tx);
  const tags = new Map(sandboxes.map((sandbox) => [sandbox.id, sandbox.tags]));
  const keys = gone.flatMap((session) => {
    const now = tags.get(session.sandboxId) ?? "{}";
    return cleared.get(session.id) === now ? [] : tagKeysOf(session, JSON.parse(now));
  });
  await deleteTagRows(engine, keys);
  await sql`
    delete from sandboxes where ${among("id", [...tags.keys()])} and deleted_at is not null
      and case when exists (select 1 from sessions where sessions.sandbox_id = sandboxes.id)
        or exists (select 1 from snapshots where snapshots.sandbox_id = sandboxes.id) then 0 else 1 end = 1`.execute(
    tx,
  );
  await runs.remove(tx, "sessions", gone);
  return gone.length;
}
