/**
 * The list of sandboxes. For every filter, an index gives the rows of a page in order: by the sort column alone, by
 * state, or by the rarest of its tags.
 */

import { type RawBuilder, type SelectQueryBuilder, sql } from "kysely";
import { imageKey } from "../../../core/model/image.ts";
import type { Sandbox, SessionState } from "../../../core/model/sandbox.ts";
import type { Page, SandboxFilter, SandboxQuery } from "../../../core/ports/store.ts";
import type { Database, SandboxRow, Tables } from "../../tables.ts";
import { isOver } from "../session-states.ts";
import type { Position } from "./cursor.ts";
import { behind, readPage, type Sort, startingWith } from "./page.ts";
import { filterPairs, hasPair, isRare, rarestFirst, sandboxTags, type TagPair, tagPairs } from "./tags.ts";

const sorts = {
  createdAt: { column: "created_at", type: "number" },
  name: { column: "name", type: "string" },
  stateChangedAt: { column: "state_changed_at", type: "number" },
  // A missing one is "", which comes first in ascending order.
  currentSnapshotId: { column: "current_snapshot_id", type: "string" },
} as const satisfies Record<SandboxQuery["sortBy"], Sort>;

export function listSandboxes(
  db: Database,
  query: SandboxQuery,
  toSandbox: (row: SandboxRow) => Sandbox,
): Promise<Page<Sandbox>> {
  const { projectId, namePrefix, states, tags, kept, createdAfter, image, noted, imageNamePrefix, sortBy, order } =
    query;
  const read = (position: Position | undefined, limit: number) => {
    const slice: Slice = { column: sorts[sortBy].column, order, position, limit };
    if (states?.length === 0) return Promise.resolve([]);
    const pairs = filterPairs(tagPairs(tags ?? {}));
    if (pairs.length > 0) return readTagged(db, query, pairs, slice);
    if (states && sortBy === "createdAt") return readByState(db, query, states, slice);
    return cut(filtered(db, query, sortBy === "name" && position ? order : undefined), slice).execute();
  };
  const filter = {
    namePrefix,
    states: states?.toSorted(),
    tags,
    kept,
    createdAfter,
    image,
    noted,
    imageNamePrefix,
  };
  return readPage({ query, sort: sorts[sortBy], list: { of: "sandboxes", projectId, ...filter }, read }, toSandbox);
}

export async function countSandboxes(db: Database, query: SandboxFilter): Promise<number> {
  if (query.states?.length === 0) return 0;
  const pairs = filterPairs(tagPairs(query.tags ?? {}));
  const { rarest, others } =
    pairs.length > 0 ? await rarestFirst(db, sandboxTags, query.projectId, pairs) : { rarest: undefined, others: [] };
  const rows = rarest ? tagged(db, query, rarest, others) : filtered(db, query);
  const { count } = await rows
    .clearSelect()
    .select((eb) => eb.fn.countAll<number | string | bigint>().as("count"))
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** the part of a sorted list to read, and its sort */
interface Slice {
  column: (typeof sorts)[SandboxQuery["sortBy"]]["column"];
  order: "asc" | "desc";
  position: Position | undefined;
  limit: number;
}

type Sandboxes = SelectQueryBuilder<Tables, "sandboxes", SandboxRow>;

function filtered(db: Database, query: SandboxFilter, pageBegins?: "asc" | "desc"): Sandboxes {
  const rows = db
    .selectFrom("sandboxes")
    .selectAll("sandboxes")
    .where("project_id", "=", query.projectId)
    .where("deleted_at", "is", null)
    .where((eb) => eb.and([...nameConditions(query, pageBegins), ...furtherConditions(query)]));
  return query.states ? rows.where("sandboxes.state", "in", query.states) : rows;
}

function nameConditions({ namePrefix }: SandboxFilter, pageBegins?: "asc" | "desc"): RawBuilder<boolean>[] {
  return namePrefix === undefined ? [] : startingWith("sandboxes.name", namePrefix, pageBegins);
}

function furtherConditions({
  kept,
  createdAfter,
  image,
  noted,
  imageNamePrefix,
}: SandboxFilter): RawBuilder<boolean>[] {
  const conditions: RawBuilder<boolean>[] = [];
  if (kept) {
    const session = sql`select 1 from sessions where sessions.id = sandboxes.current_session_id`;
    conditions.push(sql`(not (${isOver}) or exists (${session} and sessions.snapshotted_at is not null))`);
  }
  if (createdAfter !== undefined) conditions.push(sql`sandboxes.created_at > ${createdAfter}`);
  // We write this JSON column ourselves, so the name has exactly one spelling in it.
  if (image) {
    const keys = [image.name, imageKey({ name: image.name, owner: image.teamId })];
    const real = sql.join(
      keys.map((key) => baseHas(`"image":${JSON.stringify(key)}`)),
      sql` or `,
    );
    conditions.push(sql`(${baseHas(`"imageName":${JSON.stringify(image.name)}`)} or (${isUnnamed} and (${real})))`);
  }
  if (noted) {
    const { member, value, otherwise } = noted;
    const key = `${JSON.stringify(member)}:`;
    const images = otherwise.imageNames.map((name) =>
      name === null ? isUnnamed : baseHas(`"imageName":${JSON.stringify(name)}`),
    );
    const hasNote = notesHave(`${key}${JSON.stringify(value)}`);
    const hasNone = sql`(sandboxes.notes is null or not ${notesHave(`${key}"`)})`;
    conditions.push(sql`(${hasNote} or (${hasNone} and (${sql.join(images, sql` or `)})))`);
  }
  if (imageNamePrefix !== undefined) {
    conditions.push(baseHas(`"imageName":${JSON.stringify(imageNamePrefix).slice(0, -1)}`));
  }
  return conditions;
}

const isUnnamed = sql<boolean>`sandboxes.base not like '%"imageName":%'`;

function baseHas(text: string): RawBuilder<boolean> {
  return sql`sandboxes.base like ${containing(text)} escape '!'`;
}

function notesHave(text: string): RawBuilder<boolean> {
  return sql`sandboxes.notes like ${containing(text)} escape '!'`;
}

function containing(text: string): string {
  return `%${text.replaceAll(/[!%_]/g, "!$&")}%`;
}

function cut(rows: Sandboxes, { column, order, position, limit }: Slice): Sandboxes {
  const left = position ? rows.where(behind(position, order, `sandboxes.${column}`, "sandboxes.id")) : rows;
  return left.orderBy(`sandboxes.${column}`, order).orderBy("sandboxes.id", order).limit(limit);
}

/** Each state has its own order, so a page over several merges the first rows of each. */
async function readByState(
  db: Database,
  query: SandboxQuery,
  states: readonly SessionState[],
  slice: Slice,
): Promise<SandboxRow[]> {
  const [first, ...more] = [...new Set(states)].map((state) =>
    db.selectFrom(cut(filtered(db, { ...query, states: [state] }), slice).as("of_state")).selectAll(),
  );
  if (!first) return [];
  return more
    .reduce((merged, next) => merged.unionAll(next), first)
    .orderBy(slice.column, slice.order)
    .orderBy("id", slice.order)
    .limit(slice.limit)
    .execute();
}

async function readTagged(db: Database, query: SandboxQuery, pairs: TagPair[], slice: Slice): Promise<SandboxRow[]> {
  const { projectId } = query;
  const alongTag = slice.column === "created_at";
  const [only, ...more] = pairs;
  if (only && more.length === 0 && alongTag) return readAlongTag(db, query, only, more, slice);
  const { rarest, others, count } = await rarestFirst(db, sandboxTags, projectId, pairs);
  if (alongTag) return readAlongTag(db, query, rarest, others, slice);
  // A common tag occurs often enough along any order.
  if (!isRare(count)) {
    const outer = { projectId, createdAt: "sandboxes.created_at", id: "sandboxes.id" };
    const having = filtered(db, query).where((eb) => eb.and(pairs.map((pair) => hasPair(sandboxTags, pair, outer))));
    return cut(having, slice).execute();
  }
  // The rows with a rare tag are few enough to sort.
  const { column, order, position, limit } = slice;
  const few = db
    .with(
      (name) => name("few").materialized(),
      () => tagged(db, query, rarest, others),
    )
    .selectFrom("few")
    .selectAll()
    .orderBy(column, order)
    .orderBy("id", order)
    .limit(limit);
  return (position ? few.where(behind(position, order, column, "id")) : few).execute();
}

/** reads along the tag's own rows, which are in order of creation */
function readAlongTag(
  db: Database,
  query: SandboxQuery,
  rarest: TagPair,
  others: TagPair[],
  { order, position, limit }: Slice,
): Promise<SandboxRow[]> {
  const rows = tagged(db, query, rarest, others)
    .orderBy("tag.created_at", order)
    .orderBy("tag.sandbox_id", order)
    .limit(limit);
  return (position ? rows.where(behind(position, order, "tag.created_at", "tag.sandbox_id")) : rows).execute();
}

function tagged(db: Database, query: SandboxFilter, rarest: TagPair, others: TagPair[]) {
  const outer = { projectId: query.projectId, createdAt: "tag.created_at", id: "tag.sandbox_id" };
  const rows = db
    .selectFrom("sandbox_tags as tag")
    .innerJoin("sandboxes", "sandboxes.id", "tag.sandbox_id")
    .selectAll("sandboxes")
    .where("tag.project_id", "=", query.projectId)
    .where("tag.key", "=", rarest.key)
    .where("tag.value", "=", rarest.value)
    .where((eb) => eb.and(others.map((pair) => hasPair(sandboxTags, pair, outer))))
    .where((eb) => eb.and([...nameConditions(query), ...furtherConditions(query)]));
  return query.states ? rows.where("sandboxes.state", "in", query.states) : rows;
}
