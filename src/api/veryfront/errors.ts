/**
 * Errors on Veryfront's wire: problem details by RFC 9457, whose `detail` is the message that clients show.
 */

import { STATUS_CODES } from "node:http";
import { type ErrorCase, isSandkeepError } from "../../core/model/errors.ts";
import { InvalidInput } from "../kit/http.ts";
import { invalidWords } from "../kit/issues.ts";
import { type ErrorTable, isForTheLog, Refusal, retryAfter, rowFor, statuses } from "../kit/refusal.ts";

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
}

const ownStatuses: ErrorTable<number> = {
  ...statuses,
  "exists sandbox": 400,
  "conflict snapshot": 400,
  // An ended session is not found, because closing a session deletes it on the hosted service.
  gone: 404,
  "gone snapshot": 409,
};

const wordings: Partial<Record<ErrorCase, string>> = {
  unauthenticated: "Not authorized: the token is missing or invalid",
  "gone session": "The sandbox session has ended",
  "conflict session": "The sandbox session is ending",
  "conflict session paused": "The sandbox session is paused, and goes on when its sandbox is resumed",
  "invalid executable": "Cannot run the command: the sandbox's image has no bash",
  internal: "An internal error occurred",
};

/** the answer to a request that failed; `logError` is called with errors that are our own fault */
export function errorResponse(error: unknown, logError: (error: unknown) => void): Response {
  const problem = problemOf(error, logError);
  const headers = { "content-type": "application/problem+json; charset=utf-8" };
  return new Response(JSON.stringify(problem), {
    status: problem.status,
    headers: { ...headers, ...(problem.status === 429 && retryAfter(error)) },
  });
}

export function problemOf(error: unknown, logError: (error: unknown) => void): Problem {
  const { status, message } = refusalOf(error);
  if (isForTheLog(status)) logError(error);
  return { type: "about:blank", title: STATUS_CODES[status] ?? "Error", status, detail: message };
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof InvalidInput) return new Refusal(400, invalidWords(error.issues));
  if (!isSandkeepError(error)) return new Refusal(500, wordings.internal ?? "");
  return new Refusal(rowFor(ownStatuses, error), rowFor(wordings, error) ?? error.message, { cause: error });
}
