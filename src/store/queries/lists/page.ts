/**
 * Pages of a list by keyset: each begins after the last row of the one before, whatever was inserted meanwhile.
 */

import { type RawBuilder, sql } from "kysely";
import type { Page, PageQuery } from "../../../core/ports/store.ts";
import type { Database } from "../../tables.ts";
import { snakeCase } from "../rows.ts";
import { type ListIdentity, type Position, readCursor, writeCursor } from "./cursor.ts";

/** The column that sorts a list, and its type. */
export interface Sort {
  column: string;
  type: "string" | "number";
}

export interface PageSource<R> {
  query: PageQuery;
  sort: Sort;
  /** the kind of list and its filter */
  list: ListIdentity;
  /** at most `limit` rows after a position, in order */
  read(position: Position | undefined, limit: number): Promise<R[]>;
}

export async function readPage<R extends { id: string }, T>(
  { query, sort, list, read }: PageSource<R>,
  toValue: (row: R) => T,
): Promise<Page<T>> {
  const identity = { ...list, sort: sort.column, order: query.order };
  const position = query.cursor === undefined ? undefined : readCursor(identity, query.cursor, sort.type);
  // One extra row tells whether there is a next page.
  const rows = await read(position, query.limit + 1);
  const shown = rows.slice(0, query.limit);
  const last = shown.at(-1);
  const items = shown.map(toValue);
  if (rows.length <= query.limit || !last) return { items };
  return { items, next: writeCursor(identity, { value: sortValue(last, sort.column), id: last.id }) };
}

/** A table whose rows are listed by a time. */
export interface TimeList {
  of: "audit" | "commands" | "secrets" | "templates" | "webhook_deliveries";
  time: "at" | "created_at" | "started_at";
  /** the field whose value selects rows, and its value; undefined selects all */
  owner: { teamId: string | undefined } | { sessionId: string } | { webhookId: string };
  filter?: TimeFilter;
}

/** Which rows of the owner are listed. */
export interface TimeFilter {
  conditions: readonly RawBuilder<boolean>[];
  /** one of these holds too, and each has an index; only as many rows as the page has are read of each */
  oneOf?: readonly RawBuilder<boolean>[];
  /** what tells it from other filters */
  of: ListIdentity;
}

/** rows in the order of a time, then of their ids; the caller names the table and the type of its rows together */
export function pageByTime<R extends { id: string }, T>(
  db: Database,
  { of, time, owner, filter = { conditions: [], of: {} } }: TimeList,
  query: PageQuery,
  toValue: (row: R) => T,
): Promise<Page<T>> {
  const owned = Object.entries(owner).filter(([, value]) => value !== undefined);
  const conditions = owned.map(([field, value]) => sql<boolean>`${sql.ref(snakeCase(field))} = ${value}`);
  const order = sql.raw(query.order);
  return readPage<R, T>(
    {
      query,
      sort: { column: time, type: "number" },
      list: { of, ...owner, ...filter.of },
      read: async (position, limit) => {
        const from = position ? [behind(position, query.order, time, "id")] : [];
        const cut = sql`order by ${sql.ref(time)} ${order}, id ${order} limit ${limit}`;
        const selected = (more: readonly RawBuilder<boolean>[]) => {
          const all = [sql`1 = 1`, ...conditions, ...filter.conditions, ...more, ...from];
          return sql<R>`select * from ${sql.table(of)} where ${sql.join(all, sql` and `)} ${cut}`;
        };
        const parts = filter.oneOf?.map((condition) => sql`select * from (${selected([condition])}) as part`);
        const whole = parts
          ? sql<R>`select * from (${sql.join(parts, sql` union all `)}) as parts ${cut}`
          : selected([]);
        return (await whole.execute(db)).rows;
      },
    },
    toValue,
  );
}

function sortValue(row: object, column: string): string | number {
  const value: unknown = Reflect.get(row, column);
  return typeof value === "number" ? value : String(value);
}

/** the condition for rows after a position, in the order of these two columns */
export function behind(position: Position, order: PageQuery["order"], column: string, id: string): RawBuilder<boolean> {
  const sign = sql.raw(order === "asc" ? ">" : "<");
  return sql`(${sql.ref(column)}, ${sql.ref(id)}) ${sign} (${position.value}, ${position.id})`;
}

/**
 * The conditions for texts with a prefix: a range, in which no character of the prefix is special. If a page sorted by
 * this column begins after a position, the position replaces one end of the range: given both, a database might begin
 * to read at the wrong one.
 */
export function startingWith(column: string, prefix: string, pageBegins?: PageQuery["order"]): RawBuilder<boolean>[] {
  const end = endOfPrefix(prefix);
  const conditions: RawBuilder<boolean>[] = [];
  if (pageBegins !== "asc") conditions.push(sql`${sql.ref(column)} >= ${prefix}`);
  if (pageBegins !== "desc" && end !== undefined) conditions.push(sql`${sql.ref(column)} < ${end}`);
  return conditions;
}

/** the first text, by code points, after all with the prefix; undefined if there is none */
function endOfPrefix(prefix: string): string | undefined {
  const characters = [...prefix];
  for (let last = characters.pop(); last !== undefined; last = characters.pop()) {
    const next = (last.codePointAt(0) ?? 0) + 1;
    // Surrogates are not characters, and no character follows the last one.
    if (next <= 0x10ffff) return characters.join("") + String.fromCodePoint(next === 0xd800 ? 0xe000 : next);
  }
  return undefined;
}
