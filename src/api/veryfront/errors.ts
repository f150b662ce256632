/**
 * What went wrong, as Veryfront's clients read it: a problem by RFC 9457, whose `detail` is the sentence that they show.
 */

import { STATUS_CODES } from "node:http";
import { type ErrorCode, isSandkeepError } from "../../core/model/errors.ts";
import { InvalidInput } from "../kit/http.ts";
import { invalidWords } from "../kit/issues.ts";
import { isForTheLog, Refusal, retryAfter, statuses } from "../kit/refusal.ts";

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
}

const ownStatuses = {
  ...statuses,
  "name-taken": 400,
  "no-snapshot": 400,
  // A session that is over is not there any more: on the hosted service, closing one deletes it.
  stopped: 404,
  gone: 404,
  "snapshot-gone": 409,
};

const wordings: Partial<Record<ErrorCode, string>> = {
  unauthenticated: "Not authorized: the token is missing or invalid",
  stopped: "The sandbox session has ended",
  stopping: "The sandbox session is ending",
  snapshotting: "The sandbox session is ending",
  "unknown-executable": "Cannot run the command: the sandbox's image has no bash",
  internal: "An internal error occurred",
};

/** the answer to a request that failed; `trouble` hears of what is our own fault */
export function errorResponse(error: unknown, trouble: (error: unknown) => void): Response {
  const problem = problemOf(error, trouble);
  const headers = { "content-type": "application/problem+json; charset=utf-8" };
  return new Response(JSON.stringify(problem), {
    status: problem.status,
    headers: { ...headers, ...(problem.status === 429 && retryAfter(error)) },
  });
}

export function problemOf(error: unknown, trouble: (error: unknown) => void): Problem {
  const { status, message } = refusalOf(error);
  if (isForTheLog(status)) trouble(error);
  return { type: "about:blank", title: STATUS_CODES[status] ?? "Error", status, detail: message };
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof InvalidInput) return new Refusal(400, invalidWords(error.issues));
  if (!isSandkeepError(error)) return new Refusal(500, wordings.internal ?? "");
  return new Refusal(ownStatuses[error.code], wordings[error.code] ?? error.message, { cause: error });
}
