/**
 * Cursors: where a page of a list ended, as text that means nothing to its holder. It also says which list it is of,
 * because with another sort or filter the place would be nowhere.
 *
 *   base64url of the JSON [fingerprint of list, sort and filter, value of the sort column, id]
 */

import { createHash } from "node:crypto";
import { SandkeepError } from "../../core/model/errors.ts";

/** the last row of a page: rows are in the order of the sort column, those of equal value in the order of their ids */
export interface Position {
  value: string | number;
  id: string;
}

/** what a list is of, how it is sorted and filtered; in any order, and what is undefined is not there */
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

/** JSON whose objects have their members in order, so that equal values have equal texts */
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
