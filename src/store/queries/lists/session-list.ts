/**
 * The list of sessions. A filter by tags reads along an index in the order of the page: along the rarest of its values,
 * or, for one name or for open sessions, along those. It checks the other filters a stretch of rows at a time, because
 * the next match may be far away. Between stretches, other work gets its turn.
 */

import { setImmediate as nextTurn } from "node:timers/promises";
import { type RawBuilder, sql } from "kysely";
import type { Session, TagValue } from "../../../core/model/sandbox.ts";
import type { Page, SessionQuery } from "../../../core/ports/store.ts";
import type { Engine } from "../../engines/engines.ts";
import type { Database } from "../../tables.ts";
import type { Row } from "../rows.ts";
import { isOpen } from "../session-states.ts";
import { between, byCreation, readByCreation } from "./creation-list.ts";
import type { Position } from "./cursor.ts";
import { readPage } from "./page.ts";
import { contains, needsCheck, wantedTerms } from "./session-tags.ts";
import { filterPairs, hasPair, rarestFirst, sessionTags, type TagPair } from "./tags.ts";

/** `wanted` are the columns to return, which must include those that sort the list */
export async function listSessions<T extends Listed>(
  engine: Pick<Engine, "db" | "among">,
  query: SessionQuery,
  { wanted, toValue }: { wanted: RawBuilder<unknown>; toValue: (row: Row<T>) => T },
): Promise<Page<T>> {
  const { db } = engine;
  const { projectId, sandboxName, open, after, before, contains: tags = {} } = query;
  const terms = filterPairs(wantedTerms(tags));
  const more = open ? [isOpen] : [];
  const read = (position: Position | undefined, limit: number) =>
    terms.length === 0
      ? readByCreation<Row<T> & { id: string }>(db, "sessions", query, { wanted, position, limit, more })
      : readContaining(db, query, tags, terms, position, limit).then((ids) => rowsOf<T>(engine, wanted, ids));
  const list = { of: "sessions", projectId, sandboxName, open, after, before, tags };
  return readPage({ query, sort: byCreation, list, read }, toValue);
}

type Listed = Pick<Session, "id" | "createdAt">;

/** rows of the first stretch in addition to the page, and of the longest one */
const firstStretch = 100;
const longestStretch = 4000;

/** A row on the way, and whether its session has every term. */
interface Candidate {
  at: number;
  id: string;
  matches: number;
}

async function readContaining(
  db: Database,
  query: SessionQuery,
  tags: Record<string, TagValue>,
  terms: TagPair[],
  position: Position | undefined,
  limit: number,
): Promise<string[]> {
  const read = await candidatesOf(db, query, terms);
  const found: string[] = [];
  // With a single term, every row is on the page.
  let stretch = terms.length === 1 && !needsCheck(tags) ? limit : limit + firstStretch;
  for (let from = position; ; ) {
    const candidates = await read(from, stretch);
    const ids = candidates.filter(({ matches }) => matches === 1).map(({ id }) => id);
    found.push(...(needsCheck(tags) ? await checked(db, ids, tags) : ids));
    const last = candidates.at(-1);
    if (found.length >= limit || !last || candidates.length < stretch) break;
    from = { value: last.at, id: last.id };
    stretch = Math.min(stretch * 4, longestStretch);
    await nextTurn();
  }
  return found.slice(0, limit);
}

/** returns a function that reads candidates after a position */
async function candidatesOf(
  db: Database,
  query: SessionQuery,
  terms: TagPair[],
): Promise<(position: Position | undefined, limit: number) => Promise<Candidate[]>> {
  const { projectId, sandboxName, open, order } = query;
  const sign = sql.raw(order);
  const read = async (
    table: RawBuilder<unknown>,
    conditions: RawBuilder<boolean>[],
    others: TagPair[],
    columns: { at: string; id: string },
    limit: number,
  ) => {
    const [at, id] = [sql.ref(columns.at), sql.ref(columns.id)];
    const outer = { projectId, createdAt: columns.at, id: columns.id };
    const matches = sql.join([sql`1 = 1`, ...others.map((pair) => hasPair(sessionTags, pair, outer))], sql` and `);
    const { rows } = await sql<Candidate>`
      select ${at} as at, ${id} as id, case when ${matches} then 1 else 0 end as matches
      from ${table} where ${sql.join(conditions, sql` and `)}
      order by ${at} ${sign}, ${id} ${sign} limit ${limit}`.execute(db);
    return rows;
  };
  if (sandboxName !== undefined || open)
    return (position, limit) => {
      const conditions = [sql<boolean>`sessions.project_id = ${projectId}`, ...between(query, position)];
      if (sandboxName !== undefined) conditions.push(sql`sandbox_name = ${sandboxName}`);
      if (open) conditions.push(isOpen);
      return read(sql`sessions`, conditions, terms, { at: "sessions.created_at", id: "sessions.id" }, limit);
    };
  const [only] = terms;
  const { rarest, others } =
    only && terms.length === 1 ? { rarest: only, others: [] } : await rarestFirst(db, sessionTags, projectId, terms);
  const columns = { at: "tag.created_at", id: "tag.session_id" };
  return (position, limit) => {
    const along = sql<boolean>`tag.project_id = ${projectId} and tag.key = ${rarest.key} and tag.value = ${rarest.value}`;
    return read(sql`session_tags as tag`, [along, ...between(query, position, columns)], others, columns, limit);
  };
}

/** the ids whose sandboxes' tags contain the given tags */
async function checked(db: Database, ids: string[], tags: Record<string, TagValue>): Promise<string[]> {
  if (ids.length === 0) return [];
  const rows = await db
    .selectFrom("sessions")
    .innerJoin("sandboxes", "sandboxes.id", "sessions.sandbox_id")
    .select(["sessions.id", "sandboxes.tags"])
    .where("sessions.id", "in", ids)
    .execute();
  const containing = rows.filter((row) => contains(JSON.parse(row.tags) as TagValue, tags));
  const passed = new Set(containing.map(({ id }) => id));
  return ids.filter((id) => passed.has(id));
}

/** the rows, in the order of the given ids */
async function rowsOf<T>(
  { db, among }: Pick<Engine, "db" | "among">,
  wanted: RawBuilder<unknown>,
  ids: string[],
): Promise<(Row<T> & { id: string })[]> {
  if (ids.length === 0) return [];
  const { rows } = await sql<Row<T> & { id: string }>`
    select ${wanted} from sessions where ${among("id", ids)}`.execute(db);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.map((id) => byId.get(id)).filter((row) => row !== undefined);
}
