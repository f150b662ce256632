/**
 * Errors on E2B's API: JSON with `code`, which repeats the HTTP status and which clients check, and `message`, which
 * they show.
 */

import { type ErrorCode, isSandkeepError } from "../../core/model/errors.ts";
import { InvalidInput, json } from "../kit/http.ts";
import { invalidWords } from "../kit/issues.ts";
import { type ErrorTable, isForTheLog, Refusal, retryAfter, rowFor, statuses } from "../kit/refusal.ts";

const ownStatuses: ErrorTable<number> = {
  ...statuses,
  // A sandbox that has ended without a snapshot no longer exists.
  gone: 404,
  // Clients name images by templates. They build a template that is missing, which they recognise by status and wording.
  "invalid image": 404,
  "conflict snapshot": 404,
};

const wordings: Partial<Record<ErrorCode, string>> = {
  unauthenticated: "Invalid API key: it is missing, or no team has it",
  internal: "An internal error occurred",
};

/**
 * the answer to a request that failed; `logError` is called with errors that are our own fault, and `print` says how the
 * status is repeated
 */
export function errorResponse(
  error: unknown,
  logError: (error: unknown) => void,
  print: (status: number) => number | string = (status) => status,
): Response {
  const { status, message } = refusalOf(error);
  if (isForTheLog(status)) logError(error);
  return json({ code: print(status), message }, status, status === 429 ? retryAfter(error) : {});
}

/** the error for a sandbox that does not exist or belongs to another team */
export function noSandbox(id: string): Refusal {
  return new Refusal(404, `Sandbox "${id.slice(0, 128)}" not found`);
}

/** the status and message for any thrown value */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof InvalidInput) return new Refusal(400, invalidWords(error.issues));
  if (!isSandkeepError(error)) return new Refusal(500, wordings.internal ?? "");
  const { code, about } = error;
  const message = code === "invalid" && about?.kind === "image" ? noTemplate(about.name) : wordings[code];
  return new Refusal(rowFor(ownStatuses, error), message ?? error.message, { cause: error });
}

function noTemplate(name: string | undefined): string {
  const which = name === undefined ? "Template" : `Template "${name}"`;
  const how = "`sandkeep image pull` or `sandkeep image import` brings an image";
  return `${which} not found: no template, snapshot or image has this name (${how})`;
}
