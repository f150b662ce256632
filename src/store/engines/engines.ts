/**
 * The two engines behind the query layer: SQLite in a file of ours, PostgreSQL by its URL. What differs between them
 * ends here: the way statements reach them, and the words of a table definition.
 */

import { type DatabaseConnection, Kysely, PostgresDialect, type RawBuilder, sql } from "kysely";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Store } from "../../core/ports/store.ts";
import type { Database } from "../tables.ts";
import { Checkpoints } from "./checkpoints.ts";
import { translateErrors } from "./faults.ts";
import { Flush } from "./flush.ts";
import { noteUncertain, patientStore } from "./outage.ts";
import type { DatabaseLock } from "./postgres-lock.ts";
import { type FileLock, isLocked, lockFile, NodeSqliteDialect } from "./sqlite.ts";
import { type Statements, statementsOf } from "./statements.ts";

/** a file, or ":memory:"; or where a PostgreSQL is */
export type StoreLocation = { path: string } | { url: string };

export interface Engine {
  db: Database;
  /** runs the statements of the most frequent calls */
  statements: Statements;
  /** what a table definition calls text that is compared byte by byte */
  text: string;
  /** ends the definition of a table that is all key */
  allKey: string;
  /** a statement that makes other programs' migrations wait until the transaction ends; SQLite's do so anyway */
  migrationLock?: string;
  /** statements that let a transaction have runs for itself, or with others that do not cut them; SQLite's always do */
  runLock?: { exclusive: string; shared: string };
  /**
   * the condition that a column has one of these values; the statement is the same for any number of values, so it is
   * prepared once
   */
  among(column: string, ids: string[]): RawBuilder<boolean>;
  /** rows of texts and numbers as a table with the columns c0, c1, …; its statement is prepared once, too */
  rows(types: readonly ("text" | "bigint")[], rows: readonly (string | number)[][]): RawBuilder<unknown>;
  /** ends a select that locks its rows until the transaction ends; SQLite's lock everything once they have changed a row */
  rowLock: string;
  /** a statement that lets the transaction commit without waiting for the disk; SQLite's never wait */
  lazyCommit?: string;
  /** fewest sessions that one step of a deletion should have; fewer take nearly as long */
  leastPruned: number;
  /** resolves when all earlier commits are on the disk; an engine without it flushes each commit itself */
  flushed?(): Promise<void>;
  /** takes a lock that ends with the process or with `close`; false when another program has it */
  claim(): Promise<boolean>;
  /** after a claim, once the schema is there */
  begin?(): Promise<void>;
  /** makes methods outlast a short outage */
  patient?(store: Store): Store;
  close(): Promise<void>;
}

/** What is called back about a claimed database. */
export interface EngineEvents {
  /** another daemon has taken it over */
  lost?: ((error: SandkeepError) => void) | undefined;
  /** it has not answered for a while, or answers again */
  warn?: ((sentence: string) => void) | undefined;
}

export function openEngine(location: StoreLocation, events: EngineEvents = {}): Engine {
  return "path" in location ? openSqlite(location.path) : openPostgres(location.url, events);
}

function openSqlite(path: string): Engine {
  const checkpoints = path === ":memory:" ? undefined : new Checkpoints(path);
  const dialect = new NodeSqliteDialect(path, () => checkpoints?.committed());
  const db: Database = new Kysely({ dialect });
  let lock: FileLock | undefined;
  const rewrite = async () => checkpoints?.without(() => checkpoint(db));
  const flush = new Flush({ path: `${path}-wal`, rewrite });
  return {
    db,
    statements: statementsOf({ db, immediate: dialect.immediate, isLocked }),
    ...(path !== ":memory:" && { flushed: () => flush.flushed() }),
    among: (column, ids) => sql`${sql.ref(column)} in (select value from json_each(${JSON.stringify(ids)}))`,
    rows: (types, rows) => {
      const columns = types.map((_, i) => sql`value ->> ${sql.lit(i)} as ${sql.ref(`c${i}`)}`);
      return sql`(select ${sql.join(columns)} from json_each(${JSON.stringify(rows)}))`;
    },
    text: "text",
    allKey: "without rowid",
    rowLock: "",
    // A step blocks this thread, so it is as short as it can be.
    leastPruned: 1,
    async claim() {
      if (path === ":memory:") return true;
      lock ??= lockFile(`${path}-claim`);
      return lock !== undefined;
    },
    async close() {
      await checkpoints?.close();
      lock?.release();
      await db.destroy();
    },
  };
}

/** brings everything from SQLite's log into the database, on the disk, and empties the log */
export async function checkpoint(db: Database): Promise<void> {
  const { rows } = await sql<{ busy: number }>`pragma wal_checkpoint(truncate)`.execute(db);
  if (rows[0]?.busy !== 0) throw new SandkeepError("unavailable", "Cannot use the database: another program reads it");
}

// Arbitrary numbers that no other user of the same database takes.
const MIGRATION_LOCK = 7_392_640_117;
const RUN_LOCK = 7_392_640_119;

function openPostgres(url: string, { lost = () => undefined, warn = () => undefined }: EngineEvents): Engine {
  let lock: DatabaseLock | undefined;
  // Most daemons use SQLite, and need no memory for this client.
  const pool = async () => (await import("./postgres.ts")).openPool(url, () => lock);
  const onCreateConnection = async (connection: DatabaseConnection) => {
    await noteUncertain(connection);
    await translateErrors(connection);
  };
  const db: Database = new Kysely({ dialect: new PostgresDialect({ pool, onCreateConnection }) });
  return {
    db,
    statements: statementsOf({ db }),
    among: (column, ids) => sql`${sql.ref(column)} = any(${ids})`,
    rows: (types, rows) => {
      const columns = types.map((type, i) => sql`cast(${rows.map((row) => row[i])} as ${sql.raw(type)}[])`);
      const names = types.map((_, i) => sql.ref(`c${i}`));
      return sql`(select * from unnest(${sql.join(columns)}) as given (${sql.join(names)}))`;
    },
    text: `text collate "C"`,
    allKey: "",
    rowLock: "for update",
    lazyCommit: "set local synchronous_commit = off",
    // A step takes about ten round trips, whatever it deletes, and other requests do not wait for it.
    leastPruned: 20,
    migrationLock: `select pg_advisory_xact_lock(${MIGRATION_LOCK})`,
    runLock: {
      exclusive: `select pg_advisory_xact_lock(${RUN_LOCK})`,
      shared: `select pg_advisory_xact_lock_shared(${RUN_LOCK})`,
    },
    async claim() {
      if (lock) return lock.take();
      const { DatabaseLock } = await import("./postgres-lock.ts");
      const fresh = new DatabaseLock(url, lost, warn);
      if (!(await fresh.take())) return false;
      lock = fresh;
      return true;
    },
    begin: async () => lock?.begin(),
    patient: patientStore,
    async close() {
      await db.destroy();
      await lock?.close();
    },
  };
}
