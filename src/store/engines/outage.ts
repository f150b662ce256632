/**
 * Statements that a lost connection to PostgreSQL cut off: tried again where that can do no harm, otherwise `unavailable`.
 *
 * Harmless is what certainly did not happen: no connection could be had, the statement only reads, or it was part of a
 * transaction whose commit was not sent. Whether a commit, or a statement that writes by itself, took effect is unknown.
 */

import { setTimeout as pause } from "node:timers/promises";
import type { CompiledQuery, DatabaseConnection, QueryResult } from "kysely";
import { codeOf } from "../../base/error-code.ts";
import { isSandkeepError, messageOf, SandkeepError } from "../../core/model/errors.ts";
import type { Store } from "../../core/ports/store.ts";

/** how long a request waits for the database to come back, and how often it is tried, in ms */
const patience = 10_000;
const retryEvery = 100;

/** errors of statements that may have been executed */
const uncertain = new WeakSet<Error>();

/** remembers, of every statement of a connection that breaks, whether it may have happened */
export async function noteUncertain(connection: DatabaseConnection): Promise<void> {
  const execute = connection.executeQuery.bind(connection);
  let transaction: "none" | "open" | "committing" = "none";
  connection.executeQuery = async <R>(query: CompiledQuery): Promise<QueryResult<R>> => {
    const verb = /^\s*(\w+)/.exec(query.sql)?.[1]?.toLowerCase() ?? "";
    if (verb === "begin" || verb === "start") transaction = "open";
    if (verb === "commit") transaction = "committing";
    try {
      const result = await execute<R>(query);
      if (verb === "commit" || verb === "rollback") transaction = "none";
      return result;
    } catch (error) {
      const mayHaveHappened = transaction === "committing" || (transaction === "none" && verb !== "select");
      if (mayHaveHappened && error instanceof Error) uncertain.add(error);
      throw error;
    }
  };
}

/** the store; its methods outlast a short outage, and fail with `unavailable` in a longer one */
export function patientStore(store: Store): Store {
  const own: (keyof Store)[] = ["open", "close", "claim"];
  const methods = Object.entries(store).map(([name, method]) => {
    if (own.includes(name as keyof Store)) return [name, method];
    return [
      name,
      (...args: unknown[]) => patiently(() => (method as (...args: unknown[]) => Promise<unknown>)(...args)),
    ];
  });
  return Object.fromEntries(methods) as unknown as Store;
}

async function patiently<T>(work: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + patience;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isOutage(error)) throw error;
      const isCertain = !(error instanceof Error && uncertain.has(error));
      if (!isCertain || performance.now() > deadline) throw unavailable(error);
      await pause(retryEvery);
    }
  }
}

function unavailable(cause: unknown): SandkeepError {
  if (isSandkeepError(cause)) return cause;
  return new SandkeepError("unavailable", `Cannot reach the database: ${messageOf(cause)}`, { cause });
}

const networkCodes = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ENOENT",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENOTFOUND",
]);
const sentences =
  /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error)/;

function isOutage(error: unknown): boolean {
  if (isSandkeepError(error)) return error.code === "unavailable";
  if (!(error instanceof Error)) return false;
  const code = codeOf(error) ?? "";
  // Class 08: connection exception; 57P01 to 57P03: the server is shut down or starts; 53300: too many connections.
  return networkCodes.has(code) || /^(08\w{3}|57P0[123]|53300)$/.test(code) || sentences.test(error.message);
}
