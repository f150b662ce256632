/** What went wrong, in our own words: a code that programs read, and a sentence. */

import { type ErrorCode, isSandkeepError, SandkeepError } from "../../core/model/errors.ts";
import { InvalidInput, json } from "../kit/http.ts";
import { invalidWords } from "../kit/issues.ts";
import { retryAfter, statuses } from "../kit/refusal.ts";

/** the answer to a request that failed; `trouble` hears of what is our own fault */
export function errorResponse(error: unknown, trouble: (error: unknown) => void): Response {
  const { code, message } = refusalOf(error, trouble);
  const status = statuses[code];
  return json(errorBody({ code, message }), status, status === 429 ? retryAfter(error) : {});
}

/** as the last line of a stream that breaks off */
export function errorLine(error: unknown, trouble: (error: unknown) => void): object {
  return errorBody(refusalOf(error, trouble));
}

export function nothingHere(): SandkeepError {
  return new SandkeepError("not-found", "There is nothing at this address");
}

interface Refusal {
  code: ErrorCode;
  message: string;
}

function errorBody({ code, message }: Refusal): object {
  return { error: { code: code.replaceAll("-", "_"), message } };
}

function refusalOf(error: unknown, trouble: (error: unknown) => void): Refusal {
  if (error instanceof InvalidInput) return { code: "invalid", message: invalidWords(error.issues) };
  if (isSandkeepError(error) && error.code !== "internal") return error;
  trouble(error);
  return { code: "internal", message: "An internal error occurred" };
}
