/** Lists of sessions and snapshots in order of creation, oldest or newest first, and parts of them. */

import { type RawBuilder, sql } from "kysely";
import type { Moment, PageQuery, SnapshotQuery, Span } from "../../../core/ports/store.ts";
import type { Database } from "../../tables.ts";
import type { Position } from "./cursor.ts";
import type { Sort } from "./page.ts";

export type CreationList = "sessions" | "snapshots";

export const byCreation = { column: "created_at", type: "number" } as const satisfies Sort;

/** the rows of a page */
export async function readByCreation<R>(
  db: Database,
  list: CreationList,
  query: SnapshotQuery,
  slice: { wanted: RawBuilder<unknown>; position: Position | undefined; limit: number; more?: RawBuilder<boolean>[] },
): Promise<R[]> {
  const conditions = [sql<boolean>`project_id = ${query.projectId}`, ...between(query, slice.position)];
  if (query.sandboxName !== undefined) conditions.push(sql`sandbox_name = ${query.sandboxName}`);
  conditions.push(...(slice.more ?? []));
  const order = sql.raw(query.order);
  const { rows } = await sql<R>`
    select ${slice.wanted} from ${sql.table(list)} where ${sql.join(conditions, sql` and `)}
    order by created_at ${order}, id ${order} limit ${slice.limit}`.execute(db);
  return rows;
}

/** a list of column names for a statement */
export function named(columns: readonly string[]): RawBuilder<unknown> {
  return sql.join(columns.map((column) => sql.ref(column)));
}

/**
 * The conditions for rows in a part of a list and after a position in it. The position replaces one end of the part:
 * given both, a database might begin to read at the wrong one.
 */
export function between(
  { after, before, order }: Span & Pick<PageQuery, "order">,
  position: Position | undefined,
  columns = { at: "created_at", id: "id" },
): RawBuilder<boolean>[] {
  const place = position && { at: Number(position.value), id: position.id };
  const from = order === "asc" ? (place ?? after) : after;
  const to = order === "desc" ? (place ?? before) : before;
  return [...(from ? [beyond(">", from, columns)] : []), ...(to ? [beyond("<", to, columns)] : [])];
}

/** the condition for rows newer (`>`) or older (`<`) than a moment */
export function beyond(
  sign: ">" | "<",
  { at, id }: Moment,
  columns = { at: "created_at", id: "id" },
): RawBuilder<boolean> {
  if (id === undefined) return sql`${sql.ref(columns.at)} ${sql.raw(sign)} ${at}`;
  return sql`(${sql.ref(columns.at)}, ${sql.ref(columns.id)}) ${sql.raw(sign)} (${at}, ${id})`;
}
