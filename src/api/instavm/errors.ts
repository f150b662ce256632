/**
 * Errors in FastAPI's format. Input that does not match a schema is a 422 whose `detail` lists what is wrong and where.
 * Every other error is a status with a message as `detail`.
 */

import type { z } from "zod";
import { isSandkeepError, messageOf } from "../../core/model/errors.ts";
import { InvalidInput, json } from "../kit/http.ts";
import { type ErrorTable, isForTheLog, Refusal, retryAfter, rowFor, statuses } from "../kit/refusal.ts";

/** Where a value came from. */
export type Place = "query" | "body" | "path" | "header";

export interface Complaint {
  loc: (string | number)[];
  msg: string;
  type: string;
}

/** FastAPI's messages that our schemas use, by FastAPI's error type. */
export const words = {
  missing: "Field required",
  int_parsing: "Input should be a valid integer, unable to parse string as an integer",
  dict_type: "Input should be a valid dictionary",
};

/** Input that does not match a schema. */
export class Unprocessable extends Error {
  override readonly name = "Unprocessable";
  readonly complaints: Complaint[];

  constructor(complaints: Complaint[]) {
    super(complaints[0]?.msg ?? "The request is not what it should be");
    this.complaints = complaints;
  }
}

/** A stopped VM can be started again, so it is not a 410. */
const ownStatuses: ErrorTable<number> = { ...statuses, "gone session": 409 };

/** the answer to a request that failed; `logError` is called with errors that are our own fault */
export function errorResponse(error: unknown, logError: (error: unknown) => void): Response {
  if (error instanceof Unprocessable) return json({ detail: error.complaints }, 422);
  if (error instanceof InvalidInput) return json({ detail: complaintsOf(error, "body") }, 422);
  const { status, message } = inWords(error);
  if (isForTheLog(status)) logError(error);
  return json({ detail: message }, status, status === 429 ? retryAfter(error) : (headers[status] ?? {}));
}

export function sentenceOf(error: unknown): string {
  return error instanceof Unprocessable ? error.message : inWords(error).message;
}

/** runs `parse`; adds the place of the input to errors of the schema */
export function located<T>(place: Place, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof InvalidInput) throw new Unprocessable(complaintsOf(error, place));
    // Half a character, or text that is not JSON.
    if (isSandkeepError(error, "invalid")) {
      throw new Unprocessable([{ loc: [place], msg: plain(error.message), type: "value_error" }]);
    }
    throw error;
  }
}

/** the error for something that does not exist or belongs to another team */
export function notFound(noun: string): Refusal {
  return new Refusal(404, `${noun} not found`);
}

/** the error for a feature of this vendor that Sandkeep does not have */
export function notOffered(what: string): Refusal {
  return new Refusal(400, `Cannot serve this: ${what} not offered here`);
}

const headers: Record<number, Record<string, string>> = {
  401: { "www-authenticate": "Bearer" },
};

function inWords(error: unknown): { status: number; message: string } {
  if (error instanceof Refusal) return error;
  if (!isSandkeepError(error)) return { status: 500, message: "Internal Server Error" };
  if (error.code === "internal") return { status: 500, message: "Internal Server Error" };
  if (error.code === "unauthenticated") return { status: 401, message: "Invalid or missing API key" };
  return { status: rowFor(ownStatuses, error), message: plain(messageOf(error)) };
}

/** removes the prefix and the full stop that other wires use */
function plain(message: string): string {
  return message.replace(/^Invalid request: /, "").replace(/\.$/, "");
}

function complaintsOf({ issues }: InvalidInput, place: Place): Complaint[] {
  return issues.slice(0, mostComplaints).flatMap((issue) => complaint(issue, [place, ...issue.path.map(locPart)]));
}

const mostComplaints = 20;

function complaint(issue: z.core.$ZodIssue, loc: (string | number)[]): Complaint[] {
  const type = Object.entries(words).find(([, msg]) => msg === issue.message)?.[0];
  if (type !== undefined) return [{ loc, msg: issue.message, type }];
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys
        .slice(0, mostComplaints)
        .map((key) => ({ loc: [...loc, key], msg: "Extra inputs are not permitted", type: "extra_forbidden" }));
    case "invalid_type": {
      if (issue.message.endsWith("received undefined")) return [{ loc, msg: words.missing, type: "missing" }];
      const [type, noun] = types[issue.expected] ?? ["value_error", issue.expected];
      return [{ loc, msg: own(issue.message) ?? `Input should be a valid ${noun}`, type }];
    }
    case "too_small":
      if (isNumber(issue.origin)) return [bound(loc, "greater_than_equal", "greater than or equal to", issue.minimum)];
      return [{ loc, msg: `Input should have at least ${issue.minimum} items or characters`, type: "too_short" }];
    case "too_big":
      if (isNumber(issue.origin)) return [bound(loc, "less_than_equal", "less than or equal to", issue.maximum)];
      return [{ loc, msg: `Input should have at most ${issue.maximum} items or characters`, type: "too_long" }];
    case "invalid_value":
      return [
        { loc, msg: `Input should be ${issue.values.map((value) => `'${String(value)}'`).join(" or ")}`, type: "enum" },
      ];
    case "invalid_format":
      return [
        { loc, msg: own(issue.message) ?? `Input should match ${issue.pattern ?? issue.format}`, type: "value_error" },
      ];
    default:
      return [{ loc, msg: own(issue.message) ?? "Input has none of the forms that it may have", type: "value_error" }];
  }
}

function bound(loc: (string | number)[], type: string, words: string, limit: number | bigint): Complaint {
  return { loc, msg: `Input should be ${words} ${limit}`, type };
}

/** the message if it comes from one of our schemas, undefined if zod made it */
function own(message: string): string | undefined {
  return /^(Invalid|Too|Unrecognized) /.test(message) ? undefined : message.replace(/\.$/, "");
}

function isNumber(origin: string): boolean {
  return origin === "number" || origin === "int";
}

const types: Record<string, [type: string, noun: string]> = {
  string: ["string_type", "string"],
  number: ["int_type", "integer"],
  int: ["int_type", "integer"],
  boolean: ["bool_type", "boolean"],
  object: ["dict_type", "dictionary"],
  record: ["dict_type", "dictionary"],
  array: ["list_type", "list"],
};

function locPart(part: PropertyKey): string | number {
  return typeof part === "number" ? part : String(part);
}
