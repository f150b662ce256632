/**
 * SQLite through `node:sqlite`. The file belongs to this program, which has one connection to it: the query layer lets
 * one transaction at a time use it, and every statement is over before the next line of JavaScript runs.
 */

import { chmodSync, closeSync, existsSync, openSync } from "node:fs";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import {
  CompiledQuery,
  type DatabaseConnection,
  type QueryResult,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDialect,
  type SqliteDialectConfig,
  SqliteDriver,
  type SqliteStatement,
} from "kysely";
import { keepLast } from "../../base/bounded-map.ts";
import { codeOf } from "../../base/error-code.ts";
import { messageOf, SandkeepError } from "../../core/model/errors.ts";
import { checkParameters, translated, translateErrors } from "./faults.ts";
import type { Immediate } from "./statements.ts";

export class NodeSqliteDialect extends SqliteDialect {
  readonly #config: SqliteDialectConfig;
  /** runs statements at once; undefined while the database is not open */
  readonly immediate: () => Immediate | undefined;

  constructor(path: string, committed: () => void = () => undefined) {
    let opened: Immediate | undefined;
    const config = {
      database: async () => {
        const database = openDatabase(path, committed);
        opened = immediately(database);
        const close = () => {
          opened = undefined;
          database.close();
        };
        return { ...database, close };
      },
      async onCreateConnection(connection: DatabaseConnection) {
        await waitWhileLocked(connection);
        await translateErrors(connection);
      },
    };
    super(config);
    this.#config = config;
    this.immediate = () => opened;
  }

  override createDriver(): SqliteDriver {
    return new WritingDriver(this.#config);
  }

  override createAdapter(): SqliteAdapter {
    return new TransactionalAdapter();
  }
}

/** SQLite's transactions hold definitions of tables, too, so that a migration is whole or not there. */
class TransactionalAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

export interface FileLock {
  release(): void;
}

/** an unreferenced connection is closed by the garbage collector, and its lock with it */
const locks = new Set<DatabaseSync>();

/**
 * undefined when another program has it; an open transaction on its own file, because the kernel ends it with the
 * process
 */
export function lockFile(path: string): FileLock | undefined {
  const database = openPrivate(path);
  try {
    database.exec("begin exclusive");
    locks.add(database);
    return {
      release() {
        locks.delete(database);
        database.close();
      },
    };
  } catch (error) {
    database.close();
    if (isLocked(error)) return undefined;
    const how = "nothing is stored in it: end every daemon that uses it, then delete it";
    throw new SandkeepError("unsupported", `Cannot lock "${path}": ${messageOf(error)}; ${how}`, { cause: error });
  }
}

/** Transactions here always write, so they take the write lock at the start instead of failing to get it later. */
class WritingDriver extends SqliteDriver {
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw("begin immediate"));
  }

  /** after some errors, such as a full disk, SQLite has rolled back by itself; the original error is then thrown */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    try {
      await super.rollbackTransaction(connection);
    } catch (error) {
      if (!(error instanceof Error && error.message.includes("no transaction is active"))) throw error;
    }
  }
}

/** how long another program may keep the file locked, in ms, and how often it is tried again */
const patience = 5000;
const retryEvery = 2;

/** Another program may have the file open and write to it: then a statement is tried again until the lock is gone. */
async function waitWhileLocked(connection: DatabaseConnection): Promise<void> {
  const execute = connection.executeQuery.bind(connection);
  connection.executeQuery = async <R>(query: CompiledQuery): Promise<QueryResult<R>> => {
    const deadline = performance.now() + patience;
    for (;;) {
      try {
        return await execute<R>(query);
      } catch (error) {
        if (!isLocked(error) || performance.now() > deadline) throw error;
        await pause(retryEvery);
      }
    }
  };
}

/** SQLITE_BUSY, with any extended code */
export function isLocked(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && (Number(error.errcode) & 0xff) === 5;
}

/** how many prepared statements are kept: more than the store has, but lists of values make many of one */
const mostStatements = 500;

/** how long SQLite's log becomes, in pages, before a commit does the work of checkpoints.ts */
const longestLog = 20_000;

interface OpenDatabase extends SqliteDatabase {
  isTransaction(): boolean;
}

function openDatabase(path: string, committed: () => void): OpenDatabase {
  const database = openPrivate(path);
  // A reader never waits for a writer. A commit is in the kernel's hands when it returns, whatever becomes of us, and
  // never half there, whatever becomes of the power; flush.ts puts it on the disk before it is acknowledged.
  database.exec("pragma journal_mode = wal");
  database.exec("pragma synchronous = normal");
  database.exec(`pragma wal_autocheckpoint = ${longestLog}`);
  database.exec("pragma foreign_keys = on");
  // Waiting happens between statements, where it does not block other work.
  database.exec("pragma busy_timeout = 0");
  // KiB when negative: the inner pages of a million rows' indices.
  database.exec("pragma cache_size = -32768");
  const prepared = new Map<string, SqliteStatement>();
  const noteCommit = () => {
    if (!database.isTransaction) committed();
  };
  return {
    close: () => database.close(),
    isTransaction: () => database.isTransaction,
    prepare(sql) {
      const statement = prepared.get(sql) ?? wrap(database.prepare(sql), isWrite(sql) ? noteCommit : undefined);
      // The most recently used statement is the last in the map, so the first is the least useful.
      prepared.delete(sql);
      prepared.set(sql, statement);
      keepLast(prepared, mostStatements);
      return statement;
    },
  };
}

/** as Kysely's connection does it, without promises */
function immediately({ prepare, isTransaction }: OpenDatabase): Immediate {
  const run = (sql: string, parameters: readonly unknown[]): unknown[] => {
    checkParameters(parameters);
    const statement = prepare(sql);
    try {
      if (statement.reader) return statement.all(parameters);
      statement.run(parameters);
      return [];
    } catch (error) {
      throw translated(error);
    }
  };
  return {
    get isTransaction() {
      return isTransaction();
    },
    run: ({ sql, parameters }) => run(sql, parameters),
    begin: () => void run("begin immediate", []),
    commit: () => void run("commit", []),
    rollback: () => void run("rollback", []),
  };
}

/** A file that only this user may read: it has secrets in it. The log files beside it get the same mode. */
function openPrivate(path: string): DatabaseSync {
  if (path !== ":memory:") {
    try {
      closeSync(openSync(path, "wx", 0o600));
    } catch (error) {
      // An existing file is not opened: closing it would release the locks that this program has on it.
      if (codeOf(error) !== "EEXIST") throw error;
    }
    for (const file of [path, `${path}-wal`, `${path}-shm`]) if (existsSync(file)) chmodSync(file, 0o600);
  }
  return new DatabaseSync(path);
}

function isWrite(sql: string): boolean {
  return !/^\s*(select|pragma)\b/i.test(sql);
}

/** Every column is text or a number, so parameters are nothing else. `after` is called after each execution. */
function wrap(statement: StatementSync, after: () => void = () => undefined): SqliteStatement {
  const then = <T>(result: T): T => {
    after();
    return result;
  };
  return {
    reader: statement.columns().length > 0,
    all: (parameters) => then(statement.all(...(parameters as SQLInputValue[]))),
    run: (parameters) => then(statement.run(...(parameters as SQLInputValue[]))),
    iterate: (parameters) => statement.iterate(...(parameters as SQLInputValue[])),
  };
}
