/** Errors of our own API: a code for programs, and a message for people. */

import { z } from "zod";
import { type ErrorCase, isSandkeepError, SandkeepError } from "../../core/model/errors.ts";
import { InvalidInput, json } from "../kit/http.ts";
import { invalidField, invalidWords } from "../kit/issues.ts";
import { retryAfter, rowFor, statuses } from "../kit/refusal.ts";

/** the body of every answer that is not a success, and the last line of a stream that breaks off */
export const errorBody = z
  .object({
    error: z.object({
      code: z.string().meta({ description: "For programs, such as `not_found`" }),
      message: z.string().meta({ description: "A sentence for people" }),
      field: z.string().optional().meta({ description: "The member or parameter that is invalid" }),
    }),
  })
  .meta({ id: "Error" });

/** the answer to a request that failed; `logError` is called with errors that are our own fault */
export function errorResponse(error: unknown, logError: (error: unknown) => void): Response {
  const { status, ...refusal } = refusalOf(error, logError);
  return json({ error: refusal }, status, status === 429 ? retryAfter(error) : {});
}

/** the last line of a stream that breaks off */
export function errorLine(error: unknown, logError: (error: unknown) => void): { error: Omit<Refusal, "status"> } {
  const { status: _, ...refusal } = refusalOf(error, logError);
  return { error: refusal };
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
  field?: string;
}

function refusalOf(error: unknown, logError: (error: unknown) => void): Refusal {
  if (error instanceof InvalidInput) {
    const field = invalidField(error.issues);
    const message = invalidWords(error.issues);
    return { status: statuses.invalid, code: "invalid", message, ...(field !== "" && { field }) };
  }
  if (isSandkeepError(error) && error.code !== "internal") {
    const code = rowFor(codes, error) ?? error.code.replaceAll("-", "_");
    return { status: statuses[error.code], code, message: error.message };
  }
  logError(error);
  return { status: statuses.internal, code: "internal", message: "An internal error occurred" };
}
