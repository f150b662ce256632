/**
 * Tags as rows of an index table, one for each pair, in the order in which sandboxes are listed. A value is its JSON,
 * nested ones too: a filter compares them as a whole. What is too long for an index entry is there as its hash.
 */

import { createHash } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import type { Sandbox, TagValue } from "../core/sandbox.ts";
import { canonicalJson } from "./cursor.ts";
import type { Database } from "./tables.ts";

export interface TagPair {
  key: string;
  value: string;
}

/** bytes of a key or value that is kept as it is; an index entry of PostgreSQL has room for 2,700 in all */
const longestText = 256;

/** how many rows of a pair are counted at most: those that have more are equally common */
const mostCounted = 1000;

export function tagPairs(tags: Record<string, TagValue>): TagPair[] {
  return Object.entries(tags).map(([key, value]) => ({
    key: short(JSON.stringify(key)),
    value: short(canonicalJson(value)),
  }));
}

/** makes the rows of a sandbox what its tags are */
export async function writeTags(
  db: Database,
  sandbox: Pick<Sandbox, "id" | "projectId" | "createdAt">,
  tags: Record<string, TagValue>,
): Promise<void> {
  const rows = tagPairs(tags).map(({ key, value }) => ({
    project_id: sandbox.projectId,
    key,
    value,
    created_at: sandbox.createdAt,
    sandbox_id: sandbox.id,
  }));
  // An engine takes so many parameters and no more.
  for (let i = 0; i < rows.length; i += 1000)
    await db
      .insertInto("sandbox_tags")
      .values(rows.slice(i, i + 1000))
      .execute();
}

export async function deleteTags(db: Database, sandboxId: string): Promise<void> {
  await db.deleteFrom("sandbox_tags").where("sandbox_id", "=", sandboxId).execute();
}

/** the pairs with the rarest apart, and how often that is there, up to `mostCounted` */
export async function rarestFirst(
  db: Database,
  projectId: string,
  pairs: TagPair[],
): Promise<{ rarest: TagPair; others: TagPair[]; count: number }> {
  const counted = await Promise.all(pairs.map(async (pair) => ({ pair, count: await countOf(db, projectId, pair) })));
  const { pair: rarest, count } = counted.reduce((least, next) => (next.count < least.count ? next : least));
  return { rarest, others: pairs.filter((pair) => pair !== rarest), count };
}

export function isRare(count: number): boolean {
  return count < mostCounted;
}

async function countOf(db: Database, projectId: string, { key, value }: TagPair): Promise<number> {
  const some = db
    .selectFrom("sandbox_tags")
    .select("sandbox_id")
    .where("project_id", "=", projectId)
    .where("key", "=", key)
    .where("value", "=", value)
    .limit(mostCounted);
  const { count } = await db
    .selectFrom(some.as("some"))
    .select((eb) => eb.fn.countAll<number>().as("count"))
    .executeTakeFirstOrThrow();
  return count;
}

/**
 * The condition that the sandbox of the outer query has this pair too; its creation time makes it one lookup. It is no
 * `exists`, which PostgreSQL may turn into a join that reads all rows of the pair for a page of twenty.
 */
export function hasPair(
  { key, value }: TagPair,
  outer: { projectId: string; createdAt: string; id: string },
): RawBuilder<boolean> {
  return sql`(
    select 1 from sandbox_tags as other
    where other.project_id = ${outer.projectId} and other.key = ${key} and other.value = ${value}
      and other.created_at = ${sql.ref(outer.createdAt)} and other.sandbox_id = ${sql.ref(outer.id)}
    limit 1
  ) = 1`;
}

function short(text: string): string {
  if (Buffer.byteLength(text) <= longestText) return text;
  // No JSON begins like this, so no value can be another's hash.
  return `#${createHash("sha256").update(text).digest("hex")}`;
}
