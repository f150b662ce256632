/**
 * Translates the errors of the engines into errors of the core, and rejects parameters that only one of the engines
 * accepts.
 */

import type { CompiledQuery, DatabaseConnection, QueryResult } from "kysely";
import { SandkeepError } from "../../core/model/errors.ts";

/** makes every statement of a connection check its parameters and translate its errors */
export async function translateErrors(connection: DatabaseConnection): Promise<void> {
  const execute = connection.executeQuery.bind(connection);
  connection.executeQuery = async <R>(query: CompiledQuery): Promise<QueryResult<R>> => {
    checkParameters(query.parameters);
    try {
      return await execute<R>(query);
    } catch (error) {
      throw translated(error);
    }
  };
}

/** PostgreSQL takes neither NUL nor half a surrogate pair, SQLite both: with either the answer is the same. */
export function checkParameters(parameters: readonly unknown[]): void {
  for (const parameter of parameters)
    if (typeof parameter === "string" && (parameter.includes("\0") || !parameter.isWellFormed()))
      throw new SandkeepError(
        "invalid",
        `Cannot use the text ${JSON.stringify(parameter.slice(0, 100))}: it is no Unicode`,
      );
}

type Fault = "taken" | "orphan" | "too-long" | "full" | "failed" | "damaged";

/** SQLite's extended result codes (SQLITE_CONSTRAINT_UNIQUE, _PRIMARYKEY, _FOREIGNKEY), and PostgreSQL's SQLSTATE */
const faultOfCode: Record<string, Fault> = {
  "2067": "taken",
  "1555": "taken",
  "787": "orphan",
  "23505": "taken",
  "23503": "orphan",
  // SQLITE_FULL and disk_full.
  "13": "full",
  // SQLITE_CORRUPT and SQLITE_NOTADB.
  "11": "damaged",
  "26": "damaged",
  "53100": "full",
  // An index entry that fits no page.
  "54000": "too-long",
};

const sentences: Record<Fault, (cause: Error) => SandkeepError> = {
  taken: (cause) => new SandkeepError("exists", "Cannot record this: its id or name is taken", { cause }),
  orphan: (cause) =>
    new SandkeepError("not-found", "Cannot record this: the item that it belongs to does not exist", { cause }),
  full: (cause) => new SandkeepError("no-room", "Cannot record this: the disk of the database is full", { cause }),
  failed: (cause) =>
    new SandkeepError("unavailable", `Cannot use the database: its disk has failed (${cause.message})`, { cause }),
  damaged: (cause) => {
    const how = 'stop the daemon and restore the database from a backup, or run "sandkeep recover" without it';
    return new SandkeepError("unavailable", `Cannot use the database: it is damaged (${cause.message}); ${how}`, {
      cause,
    });
  },
  "too-long": (cause) => new SandkeepError("invalid", "Cannot record this: a name in it is too long", { cause }),
};

/** SQLITE_READONLY, SQLITE_IOERR and SQLITE_CANTOPEN, with any extended code */
const failedDisk = new Set([8, 10, 14]);

export function translated(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const isSqlite = "errcode" in error;
  const code = isSqlite ? error.errcode : "code" in error ? error.code : undefined;
  const isFailed = isSqlite && failedDisk.has(Number(code) & 0xff);
  const isDamaged = isSqlite && (Number(code) & 0xff) === 11;
  const fault = faultOfCode[String(isDamaged ? 11 : code)] ?? (isFailed ? "failed" : undefined);
  return fault ? sentences[fault](error) : error;
}

/** an error of a file call, where the engine leaves these to us */
export function ofDisk(cause: Error): SandkeepError {
  const { code } = cause as NodeJS.ErrnoException;
  return sentences[code === "ENOSPC" || code === "EDQUOT" ? "full" : "failed"](cause);
}
