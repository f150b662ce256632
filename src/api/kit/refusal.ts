/** What dialects share of saying no: an error that already has its status, and the status that each of the core's has. */

import { type ErrorCode, isSandkeepError } from "../../core/model/errors.ts";

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

/** where a wire does not say otherwise */
export const statuses: Record<ErrorCode, number> = {
  invalid: 400,
  "bad-cwd": 400,
  "unknown-user": 400,
  "unknown-executable": 400,
  unsupported: 400,
  unauthenticated: 401,
  forbidden: 403,
  "out-of-scope": 403,
  "not-found": 404,
  // Not a 5xx, which clients would send again: what took too long once will do so twice.
  timeout: 408,
  exists: 409,
  "name-taken": 409,
  conflict: 409,
  attached: 409,
  "no-input": 409,
  "no-snapshot": 409,
  stopping: 409,
  snapshotting: 409,
  gone: 410,
  stopped: 410,
  "snapshot-gone": 410,
  limit: 429,
  internal: 500,
  unavailable: 503,
  "no-room": 507,
};
