/** What dialects share for refusals: an error class with a status, and the usual status of each error of the core. */

import {
  casesOf,
  type ErrorCase,
  type ErrorCode,
  isSandkeepError,
  type SandkeepError,
} from "../../core/model/errors.ts";

/** An error whose status and message are already those of the wire. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** the header of a 429: seconds after which it is worth asking again */
export function retryAfter(error: unknown): { "retry-after": string } {
  const known = error instanceof Error && isSandkeepError(error.cause) ? error.cause : error;
  return { "retry-after": String((isSandkeepError(known) && known.retryAfter) || 1) };
}

/** whether the log should show an answer with this status; a full disk (507) has its own log line */
export function isForTheLog(status: number): boolean {
  return status >= 500 && status !== 507;
}

/** A wire's row for each error code, and more specific rows for errors about a certain thing. */
export type ErrorTable<T> = Record<ErrorCode, T> & Partial<Record<ErrorCase, T>>;

/** the table's most specific row for the error */
export function rowFor<T>(table: ErrorTable<T>, error: SandkeepError): T;
export function rowFor<T>(table: Partial<ErrorTable<T>>, error: SandkeepError): T | undefined;
export function rowFor<T>(table: Partial<Record<ErrorCase, T>>, error: SandkeepError): T | undefined {
  const found = casesOf(error).find((each) => each in table);
  return found && table[found];
}

/** default status of each error code */
export const statuses: Record<ErrorCode, number> = {
  invalid: 400,
  unsupported: 400,
  unauthenticated: 401,
  forbidden: 403,
  "not-found": 404,
  // Not a 5xx, which clients would retry: a request that took too long once will do so again.
  timeout: 408,
  exists: 409,
  conflict: 409,
  gone: 410,
  limit: 429,
  internal: 500,
  unavailable: 503,
  "no-room": 507,
};
