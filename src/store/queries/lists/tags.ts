/**
 * Tags as rows of an index table, one for each pair, in the order of the list of sandboxes. A value is stored as its
 * JSON, nested ones too, and a filter compares it as a whole. A text too long for an index entry is stored as its hash.
 */

import { createHash } from "node:crypto";
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { Sandbox, TagValue } from "../../../core/model/sandbox.ts";
import type { Database } from "../../tables.ts";
import { canonicalJson } from "./cursor.ts";

/** Which tags: both tables are alike except for the column of their owner. */
export interface TagIndex {
  table: "sandbox_tags" | "session_tags";
  id: "sandbox_id" | "session_id";
}

export const sandboxTags: TagIndex = { table: "sandbox_tags", id: "sandbox_id" };
export const sessionTags: TagIndex = { table: "session_tags", id: "session_id" };

export interface TagPair {
  key: string;
  value: string;
}

/** longest key or value in bytes that is stored unchanged; an index entry of PostgreSQL has room for 2,700 in all */
const longestText = 256;

/** most rows counted of a pair; one with fewer is rare */
const mostCounted = 1000;

/** most pairs of a filter: each is a part of one statement */
const mostPairs = 100;

/** the pairs of a filter; throws if there are too many */
export function filterPairs(pairs: TagPair[]): TagPair[] {
  if (pairs.length > mostPairs)
    throw new SandkeepError("invalid", `Cannot filter by ${pairs.length} tags: ${mostPairs} are the most`);
  return pairs;
}

export function tagPairs(tags: Record<string, TagValue>): TagPair[] {
  return Object.entries(tags).map(([key, value]) => ({
    key: short(JSON.stringify(key)),
    value: short(canonicalJson(value)),
  }));
}

/** the statements that insert the rows for a sandbox's tags */
export function tagInserts(
  db: Database,
  sandbox: Pick<Sandbox, "id" | "projectId" | "createdAt">,
  tags: Record<string, TagValue>,
): CompiledQuery[] {
  const rows = tagPairs(tags).map(({ key, value }) => ({
    project_id: sandbox.projectId,
    key,
    value,
    created_at: sandbox.createdAt,
    sandbox_id: sandbox.id,
  }));
  // Engines limit the parameters of a statement.
  return batches(rows, 1000).map((some) => db.insertInto("sandbox_tags").values(some).compile());
}

export function batches<T>(items: T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}

/** the rarest pair, the others, and the number of its rows, up to `mostCounted` */
export async function rarestFirst(
  db: Database,
  index: TagIndex,
  projectId: string,
  pairs: TagPair[],
): Promise<{ rarest: TagPair; others: TagPair[]; count: number }> {
  const met = await Promise.all(pairs.map(async (pair) => ({ pair, ...(await newestOf(db, index, projectId, pair)) })));
  const { pair: rarest, count } = met.reduce((least, next) =>
    // Of two common ones, prefer the one whose newest rows are spread farther.
    next.count < least.count || (next.count === least.count && (next.since ?? 0) < (least.since ?? 0)) ? next : least,
  );
  return { rarest, others: pairs.filter((pair) => pair !== rarest), count };
}

export function isRare(count: number): boolean {
  return count < mostCounted;
}

/** the number of a pair's newest rows, and the oldest time among them */
async function newestOf(
  db: Database,
  { table }: TagIndex,
  projectId: string,
  { key, value }: TagPair,
): Promise<{ count: number; since: number | null }> {
  const { rows } = await sql<{ count: number; since: number | null }>`
    select count(*) as count, min(created_at) as since from (
      select created_at from ${sql.table(table)}
      where project_id = ${projectId} and key = ${key} and value = ${value}
      order by created_at desc limit ${mostCounted}
    ) as newest`.execute(db);
  return rows[0] ?? { count: 0, since: null };
}

/**
 * The condition that the outer query's row has this pair too; the creation time makes it one lookup. It avoids
 * `exists`, which PostgreSQL may turn into a join that reads all rows of the pair for a page of twenty.
 */
export function hasPair(
  { table, id }: TagIndex,
  { key, value }: TagPair,
  outer: { projectId: string; createdAt: string; id: string },
): RawBuilder<boolean> {
  return sql`(
    select 1 from ${sql.table(table)} as other
    where other.project_id = ${outer.projectId} and other.key = ${key} and other.value = ${value}
      and other.created_at = ${sql.ref(outer.createdAt)} and other.${sql.raw(id)} = ${sql.ref(outer.id)}
    limit 1
  ) = 1`;
}

/** the text, or its hash if it does not fit into an index entry */
export function short(text: string): string {
  if (Buffer.byteLength(text) <= longestText) return text;
  // No JSON begins like this, so a hash never equals a value.
  return `#${createHash("sha256").update(text).digest("hex")}`;
}
