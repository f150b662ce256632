/** What dialects share of saying no: an error that already has its status, and the status that each of the core's has. */

import {
  casesOf,
  type ErrorCase,
  type ErrorCode,
  isSandkeepError,
  type SandkeepError,
} from "../../core/model/errors.ts";

/** An error that already speaks its wire's words. */
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

/** whether an operator should read of an answer with this status; of a full disk the log says once that it is full */
export function isForTheLog(status: number): boolean {
  return status >= 500 && status !== 507;
}

/** What a wire says of an error: something for each code, and something else where the error is about a certain thing. */
export type ErrorTable<T> = Record<ErrorCode, T> & Partial<Record<ErrorCase, T>>;

/** the row of the narrowest case that a table has for the error */
export function rowFor<T>(table: ErrorTable<T>, error: SandkeepError): T;
export function rowFor<T>(table: Partial<ErrorTable<T>>, error: SandkeepError): T | undefined;
export function rowFor<T>(table: Partial<Record<ErrorCase, T>>, error: SandkeepError): T | undefined {
  const found = casesOf(error).find((each) => each in table);
  return found && table[found];
}

/** where a wire does not say otherwise */
export const statuses: Record<ErrorCode, number> = {
  invalid: 400,
  unsupported: 400,
  unauthenticated: 401,
  forbidden: 403,
  "not-found": 404,
  // Not a 5xx, which clients would send again: what took too long once will do so twice.
  timeout: 408,
  exists: 409,
  conflict: 409,
  gone: 410,
  limit: 429,
  internal: 500,
  unavailable: 503,
  "no-room": 507,
};
