/** Errors on Vercel's wire: the status, code and message of each. */

import {
  casesOf,
  type ErrorCase,
  isSandkeepError,
  messageOf,
  notFound as noSuch,
  type SandkeepError,
} from "../../core/model/errors.ts";
import { InvalidInput, json } from "../kit/http.ts";
import { invalidWords } from "../kit/issues.ts";
import { type ErrorTable, isForTheLog, retryAfter, rowFor } from "../kit/refusal.ts";

/** An error that already has Vercel's status, code and message. */
export class VercelError extends Error {
  override readonly name = "VercelError";
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
    this.code = code;
  }
}

/** how an error of the core is printed, unless the route overrides it; without `message`, the core's own is used */
interface Wording {
  status: number;
  code: string;
  message?: string | ((name: string) => string);
}

const internalError = "An internal error occurred.";

const wordings: ErrorTable<Wording> = {
  invalid: { status: 400, code: "bad_request" },
  "invalid executable": { status: 400, code: "executable_not_found" },
  unsupported: { status: 400, code: "bad_request" },
  "exists sandbox": { status: 400, code: "bad_request" },
  "conflict snapshot": {
    status: 400,
    code: "snapshot_not_found",
    message: "Cannot resume sandbox: no snapshot available.",
  },
  "conflict command": { status: 400, code: "command_stdin_unavailable" },
  unauthenticated: { status: 401, code: "unauthorized", message: "Not authorized: the token is missing or invalid." },
  forbidden: { status: 403, code: "forbidden" },
  "not-found": { status: 404, code: "not_found" },
  "not-found sandbox": {
    status: 404,
    code: "not_found",
    message: (name) => `Named sandbox '${name}' not found for this project.`,
  },
  "not-found drive": {
    status: 404,
    code: "not_found",
    message: (name) => `Drive '${name}' not found for this project.`,
  },
  exists: { status: 409, code: "conflict" },
  conflict: { status: 409, code: "conflict" },
  gone: { status: 410, code: "gone" },
  "gone session": {
    status: 410,
    code: "sandbox_stopped",
    message: "Sandbox has stopped execution and is no longer available",
  },
  "gone snapshot": { status: 410, code: "snapshot_not_found" },
  // Clients resume a sandbox when they get this, as they do with a stopped one.
  "conflict session paused": {
    status: 410,
    code: "sandbox_stopped",
    message: "Sandbox is paused and is not available until it is resumed",
  },
  "conflict session stopping": {
    status: 422,
    code: "sandbox_stopping",
    message: "Sandbox is stopping and is no longer available.",
  },
  "conflict session snapshotting": {
    status: 422,
    code: "sandbox_snapshotting",
    message: "Sandbox is creating a snapshot and will be stopped shortly.",
  },
  // Not a 5xx, which clients would retry: a request that took too long once will do so again.
  timeout: { status: 422, code: "timeout" },
  limit: { status: 429, code: "rate_limited" },
  "limit sandbox": { status: 429, code: "rate_limited", message: "The concurrency limit has been exceeded." },
  unavailable: { status: 503, code: "service_unavailable" },
  "no-room": { status: 507, code: "insufficient_storage" },
  internal: { status: 500, code: "internal_server_error", message: internalError },
};

/** the answer to a request that failed; `logError` is called with errors that are our own fault */
export function errorResponse(error: unknown, logError: (error: unknown) => void): Response {
  const { status, code, message } = inVercelsWords(error);
  if (isForTheLog(status)) logError(error);
  return json({ error: { code, message } }, status, status === 429 ? retryAfter(error) : {});
}

export function inVercelsWords(error: unknown): VercelError {
  if (error instanceof VercelError) return error;
  if (error instanceof InvalidInput) return new VercelError(400, "bad_request", invalidWords(error.issues));
  if (!isSandkeepError(error)) return new VercelError(500, "internal_server_error", internalError);
  const { status, code, message = error.message } = rowFor(wordings, error);
  const sentence = typeof message === "string" ? message : message(error.about?.name ?? "");
  return new VercelError(status, code, sentence, { cause: error });
}

/** awaits the promise; replaces an error of one of these exact cases with the route's own */
export async function worded<T>(
  promise: Promise<T>,
  words: Partial<Record<ErrorCase, (error: SandkeepError) => VercelError>>,
): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    const word = isSandkeepError(error) ? words[casesOf(error)[0]] : undefined;
    throw word && isSandkeepError(error) ? word(error) : error;
  }
}

export function notFound(message: string): VercelError {
  return new VercelError(404, "not_found", message);
}

export function sandboxNotFound(name: string): VercelError {
  return inVercelsWords(noSuch("sandbox", name.slice(0, 128)));
}

export function badRequest(message: string): VercelError {
  return new VercelError(400, "bad_request", message);
}

/** the last line of a stream whose command has lost its sandbox */
export const streamClosed = {
  stream: "error",
  data: {
    code: "sandbox_stream_closed",
    message: "Sandbox stream was closed and is not accepting commands.",
  },
};

/** the last line of a stream that the daemon's shutdown cuts off: a client can read the rest from the next daemon */
export const daemonCloses = {
  stream: "error",
  data: {
    code: "sandbox_stream_closed",
    message:
      "Sandbox stream was closed: the daemon is stopping. The command keeps running, and its logs can be read again.",
  },
};

/** the message of an error for logs and terminals, never a stack */
export function sentenceOf(error: unknown): string {
  return isSandkeepError(error) || error instanceof VercelError || error instanceof InvalidInput
    ? inVercelsWords(error).message
    : messageOf(error);
}
