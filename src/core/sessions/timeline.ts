/**
 * A list by creation, newest first, for APIs that page through it by timestamps. Several items may share a millisecond,
 * so a page ends at a place: a millisecond, and how many of its items lie below. The count starts at the older end,
 * because later items lie above, unless they share the millisecond.
 *
 *   newer ┃ … t+1 │ t: ③ ② ① │ t-1 … ┃ older         { at: t, below: 1 } is between ② and ①
 *
 * A bound in the API is one of two: a time is a filter and reduces the total; a place only says where a page begins.
 * Old items are deleted, the last of a millisecond first. A place above deleted items stays valid, above what is left.
 */

import type { Moment, Page, PageQuery, Span } from "../ports/store.ts";

export interface Place {
  at: number;
  below: number;
}

/** A time in ms, a time somewhere within that millisecond, or a place. */
export type Bound = { at: number; below?: undefined; isWithin?: true } | Place;

export interface TimelineQuery {
  limit: number;
  /** items are newer than this; the page begins here if it is the only place */
  since?: Bound | undefined;
  /** items are older than this */
  until?: Bound | undefined;
}

export interface Timeline<T> {
  items: T[];
  /** number of items on all pages */
  total: number;
  /** `until` of the page of older items, and `since` of the page of newer ones, if there are any */
  older?: Place;
  newer?: Place;
}

export interface Listed {
  id: string;
  createdAt: number;
}

/** The list that is paged. */
export interface TimelineSource<T> {
  list(query: PageQuery & Span): Promise<Page<T>>;
  count(span: Span): Promise<number>;
}

export async function timeline<T extends Listed>(
  source: TimelineSource<T>,
  query: TimelineQuery,
): Promise<Timeline<T>> {
  const since = query.since && (await resolved(source, query.since, "since"));
  const until = query.until && (await resolved(source, query.until, "until"));
  const filter = spanOf(since?.isPlace ? undefined : since, until?.isPlace ? undefined : until);
  const upwards = since?.isPlace === true && until?.isPlace !== true;
  // One more than shown, to know where the page ends.
  const [page, total] = await Promise.all([
    source.list({ ...spanOf(since, until), limit: query.limit + 1, order: upwards ? "asc" : "desc" }),
    source.count(filter),
  ]);
  const shown = page.items.slice(0, query.limit);
  const further = page.items[query.limit];
  const items = upwards ? shown.toReversed() : shown;
  const [newest, oldest] = [items[0], items.at(-1)];
  if (!newest || !oldest) return { items, total };

  const [someNewer, nextOlder] = await Promise.all([
    upwards ? further : until?.isPlace === true && newestOf(source, { ...filter, after: momentOf(newest) }),
    upwards ? newestOf(source, { ...filter, before: momentOf(oldest) }) : further,
  ]);
  const [newer, older] = await Promise.all([
    someNewer && above(source, newest),
    nextOlder && between(source, oldest, nextOlder),
  ]);
  return { items, total, ...(older && { older }), ...(newer && { newer }) };
}

interface Resolved {
  moment: Moment;
  isPlace: boolean;
}

async function resolved<T extends Listed>(
  source: TimelineSource<T>,
  bound: Bound,
  side: "since" | "until",
): Promise<Resolved> {
  const { at, below } = bound;
  // Every item of that millisecond is older.
  const above = { at: side === "since" ? at : at + 1 };
  if (below === undefined) return { moment: bound.isWithin ? above : { at }, isPlace: false };
  if (side === "since" && below === 0) return { moment: { at: at - 1 }, isPlace: true };
  const { items } = await source.list({ ...millisecond(at), limit: below + 1, order: "asc" });
  const neighbour = items[side === "since" ? below - 1 : below];
  return { moment: neighbour ? momentOf(neighbour) : above, isPlace: true };
}

async function below<T extends Listed>(source: TimelineSource<T>, thing: T): Promise<Place> {
  const { createdAt: at } = thing;
  return { at, below: await source.count({ ...millisecond(at), before: momentOf(thing) }) };
}

async function above<T extends Listed>(source: TimelineSource<T>, thing: T): Promise<Place> {
  const place = await below(source, thing);
  return { ...place, below: place.below + 1 };
}

/** the place below an item and above the next one, which usually has another millisecond */
async function between<T extends Listed>(source: TimelineSource<T>, thing: T, next: T): Promise<Place> {
  return next.createdAt < thing.createdAt ? { at: thing.createdAt, below: 0 } : below(source, thing);
}

async function newestOf<T>(source: TimelineSource<T>, span: Span): Promise<T | undefined> {
  return (await source.list({ ...span, limit: 1, order: "desc" })).items[0];
}

function spanOf(since: Resolved | undefined, until: Resolved | undefined): Span {
  return { ...(since && { after: since.moment }), ...(until && { before: until.moment }) };
}

function millisecond(at: number): Span {
  return { after: { at: at - 1 }, before: { at: at + 1 } };
}

function momentOf({ createdAt, id }: Listed): Moment {
  return { at: createdAt, id };
}
