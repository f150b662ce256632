/** Errors of our own API: a code for programs, and a message for people. */

import { type ErrorCase, isSandkeepError, SandkeepError } from "../../core/model/errors.ts";
import { InvalidInput, json } from "../kit/http.ts";
import { invalidWords } from "../kit/issues.ts";
import { retryAfter, rowFor, statuses } from "../kit/refusal.ts";

/** the answer to a request that failed; `logError` is called with errors that are our own fault */
export function errorResponse(error: unknown, logError: (error: unknown) => void): Response {
  const { code, message, status } = refusalOf(error, logError);
  return json({ error: { code, message } }, status, status === 429 ? retryAfter(error) : {});
}

/** the last line of a stream that breaks off */
export function errorLine(error: unknown, logError: (error: unknown) => void): object {
  const { code, message } = refusalOf(error, logError);
  return { error: { code, message } };
}

export function nothingHere(): SandkeepError {
  return new SandkeepError("not-found", "There is nothing at this address");
}

/** codes of errors about a certain thing; other errors have the core's code */
const codes: Partial<Record<ErrorCase, string>> = {
  "invalid executable": "unknown_executable",
  "invalid directory": "bad_cwd",
  "invalid user": "unknown_user",
  "forbidden key": "out_of_scope",
  "exists sandbox": "name_taken",
  "conflict session stopping": "stopping",
  "conflict session snapshotting": "snapshotting",
  "conflict session paused": "paused",
  "conflict snapshot": "no_snapshot",
  "conflict command": "no_input",
  "conflict drive": "attached",
  "gone session": "stopped",
  "gone snapshot": "snapshot_gone",
};

interface Refusal {
  status: number;
  code: string;
  message: string;
}

function refusalOf(error: unknown, logError: (error: unknown) => void): Refusal {
  if (error instanceof InvalidInput) {
    return { status: statuses.invalid, code: "invalid", message: invalidWords(error.issues) };
  }
  if (isSandkeepError(error) && error.code !== "internal") {
    const code = rowFor(codes, error) ?? error.code.replaceAll("-", "_");
    return { status: statuses[error.code], code, message: error.message };
  }
  logError(error);
  return { status: statuses.internal, code: "internal", message: "An internal error occurred" };
}
