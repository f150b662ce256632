/**
 * The two engines behind the query layer: SQLite in a file of ours, PostgreSQL by its URL. What differs between them
 * ends here: the way statements reach them, and the words of a table definition.
 */

import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import { useOurWords } from "./faults.ts";
import { NodeSqliteDialect } from "./sqlite.ts";
import type { Database } from "./tables.ts";

/** a file, or ":memory:"; or where a PostgreSQL is */
export type StoreLocation = { path: string } | { url: string };

export interface Engine {
  db: Database;
  /** what a table definition calls text that is compared byte by byte */
  text: string;
  /** ends the definition of a table that is all key */
  allKey: string;
  /** a statement that makes other programs' migrations wait until the transaction ends; SQLite's do so anyway */
  migrationLock?: string;
}

export function openEngine(location: StoreLocation): Engine {
  return "path" in location ? openSqlite(location.path) : openPostgres(location.url);
}

function openSqlite(path: string): Engine {
  return { db: new Kysely({ dialect: new NodeSqliteDialect(path) }), text: "text", allKey: "without rowid" };
}

/** any number that nobody else who uses the same database takes */
const MIGRATION_LOCK = 7_392_640_117;

function openPostgres(url: string): Engine {
  const pool = new pg.Pool({ connectionString: url, types: { getTypeParser }, max: 10 });
  // An idle connection that breaks is replaced by whoever needs one next; unheard, the event would end the program.
  pool.on("error", () => undefined);
  return {
    db: new Kysely({ dialect: new PostgresDialect({ pool, onCreateConnection: useOurWords }) }),
    text: `text collate "C"`,
    allKey: "",
    migrationLock: `select pg_advisory_xact_lock(${MIGRATION_LOCK})`,
  };
}

/** all our integers are milliseconds, bytes and counts, which a number keeps exactly */
const getTypeParser: typeof pg.types.getTypeParser = (id: number, format?: "text" | "binary") =>
  id === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(id, format as "text");
