/**
 * How an object of the core is stored as a row: one column for each field, named in snake_case. A value that is neither
 * text, a number nor a boolean is JSON; a missing field is NULL.
 */

/**
 * How a field's value is stored.
 *   text   as it is
 *   key    text that lists are sorted by: "" for a missing value, because the engines sort NULL differently
 *   prose  text from any source: replaces characters that an engine cannot store
 *   whole  an integer; fractions are rounded, and what is too large to be read back is the nearest that can be
 *   real   any number
 *   flag   0 or 1
 *   json   JSON as text
 */
type Kind = "text" | "key" | "prose" | "whole" | "real" | "flag" | "json";

/** The kind of each field; the compiler checks it against the field's type. */
type Columns<T> = { [K in keyof T]-?: KindOf<Exclude<T[K], undefined>> };

type KindOf<V> = [V] extends [string]
  ? "text" | "key" | "prose"
  : [V] extends [number]
    ? "whole" | "real"
    : [V] extends [boolean]
      ? "flag"
      : "json";

/** The row that stores a T. */
export type Row<T> = {
  [K in keyof T & string as SnakeCase<K>]-?: Stored<Exclude<T[K], undefined>> | (undefined extends T[K] ? null : never);
};

type Stored<V> = [V] extends [string | number] ? V : [V] extends [boolean] ? number : string;

type SnakeCase<S extends string> = S extends `${infer Head}${infer Tail}`
  ? `${Head extends Lowercase<Head> ? Head : `_${Lowercase<Head>}`}${SnakeCase<Tail>}`
  : S;

export interface Mapping<T> {
  /** their names in the table */
  columns: (keyof Row<T> & string)[];
  toRow(value: T): Row<T>;
  /** the columns of the given fields; a field with the value undefined becomes NULL */
  toChanges(changes: { [K in keyof T]?: T[K] | undefined }): Partial<Row<T>>;
  toValue(row: Row<T>): T;
}

export function mapping<T extends object>(columns: Columns<T>): Mapping<T> {
  const fields = Object.entries<Kind>(columns).map(([field, kind]) => ({ field, kind, column: snakeCase(field) }));
  const stored = (value: object, only?: object) => {
    // Loops, because every change and every page of a list passes here.
    const row: Record<string, unknown> = {};
    for (const { field, kind, column } of fields)
      if (only === undefined || field in only) row[column] = write(kind, Reflect.get(value, field));
    return row;
  };
  return {
    columns: fields.map(({ column }) => column as keyof Row<T> & string),
    // The kinds were checked against the types field by field; the compiler cannot follow that through the loop.
    toRow: (value) => stored(value) as Row<T>,
    toChanges: (changes) => stored(changes, changes) as Partial<Row<T>>,
    toValue(row) {
      const value: Record<string, unknown> = {};
      for (const { field, kind, column } of fields) {
        const read = parse(kind, Reflect.get(row, column));
        if (read !== undefined) value[field] = read;
      }
      return value as T;
    },
  };
}

/** the first row of a query */
export async function first<R, T>(
  query: { executeTakeFirst(): Promise<R | undefined> },
  toValue: (row: R) => T,
): Promise<T | undefined> {
  const row = await query.executeTakeFirst();
  return row && toValue(row);
}

/** all rows of a query */
export async function all<R, T>(query: { execute(): Promise<R[]> }, toValue: (row: R) => T): Promise<T[]> {
  return (await query.execute()).map(toValue);
}

const largest = Number.MAX_SAFE_INTEGER;

function write(kind: Kind, value: unknown): string | number | null {
  if (value === undefined) return kind === "key" ? "" : null;
  if (kind === "json") return JSON.stringify(value);
  if (kind === "flag") return value ? 1 : 0;
  if (kind === "whole") return Math.max(-largest, Math.min(largest, Math.round(Number(value))));
  if (kind === "real") return Number(value);
  if (kind === "prose") return String(value).toWellFormed().replaceAll("\0", "\uFFFD");
  return String(value);
}

function parse(kind: Kind, stored: unknown): unknown {
  if (stored === null || (kind === "key" && stored === "")) return undefined;
  if (kind === "json") return JSON.parse(String(stored));
  if (kind === "flag") return stored === 1;
  return stored;
}

export function snakeCase(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
