/**
 * Pages of lists that the core reads whole, because they are short: keys, teams, projects, webhooks. Their pages begin
 * with the oldest item and are so large that a client which asks for none nearly always has all.
 */

import { z } from "zod";
import { SandkeepError } from "../../../core/model/errors.ts";
import { wholeNumber } from "./operation.ts";
import { pageQuery, printPage } from "./paging.ts";

const mostOnPage = 1000;

export const shortListQuery = {
  limit: wholeNumber({ min: 1, max: mostOnPage })
    .optional()
    .meta({ description: `Most items of the page, by default ${mostOnPage}` }),
  cursor: pageQuery.cursor,
};

interface Item {
  id: string;
  /** ms since 1970 */
  createdAt: number;
}

/** the page of the list that a query asks for; a cursor is the place of the last item before, which may be deleted */
export function printShortList<N extends string, T extends Item, R>(
  name: N,
  items: readonly T[],
  { limit = mostOnPage, cursor }: { limit?: number | undefined; cursor?: string | undefined },
  print: (item: T) => R,
): Record<N, R[]> & { next: string | null } {
  const after = cursor === undefined ? undefined : placeIn(name, cursor);
  const left = items.toSorted(byPlace).filter((item) => after === undefined || byPlace(after, item) < 0);
  const page = left.slice(0, limit);
  const last = page.at(-1);
  const next = last && left.length > page.length ? { next: cursorAt(name, last) } : {};
  return printPage(name, { items: page, ...next }, print);
}

function byPlace(one: Item, other: Item): number {
  if (one.createdAt !== other.createdAt) return one.createdAt - other.createdAt;
  return one.id < other.id ? -1 : one.id > other.id ? 1 : 0;
}

function cursorAt(name: string, { createdAt, id }: Item): string {
  return Buffer.from(JSON.stringify([name, createdAt, id])).toString("base64url");
}

const place = z.tuple([z.string(), z.number(), z.string()]);

function placeIn(name: string, cursor: string): Item {
  const found = place.safeParse(jsonIn(cursor));
  if (found.success && found.data[0] === name) return { createdAt: found.data[1], id: found.data[2] };
  const why = found.success ? "the cursor is of another list" : "this is not a cursor";
  throw new SandkeepError("invalid", `Cannot continue the list: ${why}`);
}

function jsonIn(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, "base64url").toString());
  } catch {
    return undefined;
  }
}
