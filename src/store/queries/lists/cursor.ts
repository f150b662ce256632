/**
 * Cursors: where a page of a list ended, as opaque text. A cursor also names its list, because it has no meaning with
 * another sort or filter.
 *
 *   base64url of the JSON [fingerprint of list, sort and filter, value of the sort column, id]
 */

import { createHash } from "node:crypto";
import { SandkeepError } from "../../../core/model/errors.ts";

/** the last row of a page: rows are sorted by the sort column, then by id */
export interface Position {
  value: string | number;
  id: string;
}

/** the kind of list, its sort and its filter; the order of members does not matter, and undefined ones are ignored */
export type ListIdentity = Record<string, unknown>;

export function writeCursor(list: ListIdentity, position: Position): string {
  return Buffer.from(JSON.stringify([fingerprint(list), position.value, position.id])).toString("base64url");
}

export function readCursor(list: ListIdentity, cursor: string, type: "string" | "number"): Position {
  const [print, value, id, ...more] = parse(cursor);
  if (typeof print !== "string" || typeof id !== "string" || !isSortValue(value) || more.length > 0)
    throw new SandkeepError("invalid", `Cannot continue the list: "${shortened(cursor)}" is not a cursor`);
  if (print !== fingerprint(list) || typeof value !== type)
    throw new SandkeepError("invalid", "Cannot continue the list: the cursor is of a list with another sort or filter");
  return { value, id };
}

/** JSON with sorted members, so that equal values have equal texts */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}

function parse(cursor: string): unknown[] {
  try {
    const parsed: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    return Array.isArray(parsed) ? parsed : [];
  } catch {
    return [];
  }
}

function isSortValue(value: unknown): value is string | number {
  return typeof value === "string" || Number.isSafeInteger(value);
}

function fingerprint(list: ListIdentity): string {
  return createHash("sha256").update(canonicalJson(list)).digest("base64url").slice(0, 16);
}

function shortened(text: string): string {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
