/**
 * What went wrong, as E2B's clients read it: JSON with `code`, the HTTP status again, which is what they decide by, and
 * `message`, the sentence that they show.
 */

import { type ErrorCode, isSandkeepError } from "../../core/model/errors.ts";
import { InvalidInput, json } from "../kit/http.ts";
import { invalidWords } from "../kit/issues.ts";
import { type ErrorTable, isForTheLog, Refusal, retryAfter, rowFor, statuses } from "../kit/refusal.ts";

const ownStatuses: ErrorTable<number> = {
  ...statuses,
  // A sandbox that has ended and kept nothing is not there any more.
  gone: 404,
  "conflict snapshot": 404,
};

const wordings: Partial<Record<ErrorCode, string>> = {
  unauthenticated: "Invalid API key: it is missing, or no team has it",
  internal: "An internal error occurred",
};

/** the answer to a request that failed; `trouble` hears of what is our own fault */
export function errorResponse(error: unknown, trouble: (error: unknown) => void): Response {
  const { status, message } = refusalOf(error);
  if (isForTheLog(status)) trouble(error);
  return json({ code: status, message }, status, status === 429 ? retryAfter(error) : {});
}

/** of a sandbox that is not there, or belongs to another team */
export function noSandbox(id: string): Refusal {
  return new Refusal(404, `Sandbox "${id.slice(0, 128)}" not found`);
}

/** status and sentence of anything that was thrown */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof InvalidInput) return new Refusal(400, invalidWords(error.issues));
  if (!isSandkeepError(error)) return new Refusal(500, wordings.internal ?? "");
  return new Refusal(rowFor(ownStatuses, error), wordings[error.code] ?? error.message, { cause: error });
}
