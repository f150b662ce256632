/**
 * Tests of a list by creation, paged by timestamps: each item is on exactly one page, even if many share a millisecond.
 */

import { describe, expect, test } from "vitest";
import type { Moment, Span } from "../ports/store.ts";
import {
  type Bound,
  type Listed,
  type Timeline,
  type TimelineQuery,
  type TimelineSource,
  timeline,
} from "./timeline.ts";

/** so many items in each of these milliseconds; their ids are not in the order of the items */
function things(...counts: number[]): Listed[] {
  return counts.flatMap((count, at) =>
    Array.from({ length: count }, (_, n) => ({ createdAt: 1000 + at, id: `id_${(n * 7) % count}` })),
  );
}

function source(all: Listed[]): TimelineSource<Listed> {
  const compare = (a: Listed, b: Listed) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1);
  const isAfter = (thing: Listed, { at, id }: Moment) =>
    thing.createdAt > at || (thing.createdAt === at && id !== undefined && thing.id > id);
  const isBefore = (thing: Listed, { at, id }: Moment) =>
    thing.createdAt < at || (thing.createdAt === at && id !== undefined && thing.id < id);
  const within = ({ after, before }: Span) =>
    all.filter((thing) => (!after || isAfter(thing, after)) && (!before || isBefore(thing, before)));
  return {
    async list({ limit, order, ...span }) {
      const found = within(span).sort((a, b) => (order === "asc" ? compare(a, b) : compare(b, a)));
      return { items: found.slice(0, limit), ...(found.length > limit && { next: "more" }) };
    },
    count: async (span) => within(span).length,
  };
}

type Walk = Timeline<Listed>[];

/** reads from the first page to the last, and back again */
async function walk(all: Listed[], query: TimelineQuery): Promise<{ there: Walk; back: Walk }> {
  const from = source(all);
  const there = [await timeline(from, query)];
  for (let older = there[0]?.older; older; older = there.at(-1)?.older) {
    there.push(await timeline(from, { ...query, until: older }));
  }
  const back: Walk = there.slice(-1);
  for (let newer = back[0]?.newer; newer; newer = back.at(-1)?.newer) {
    back.push(await timeline(from, { ...query, since: newer }));
  }
  return { there, back };
}

function idsOf(pages: Walk): string[] {
  return pages.flatMap(({ items }) => items.map(({ createdAt, id }) => `${createdAt} ${id}`));
}

describe.each([
  ["one in each millisecond", things(1, 1, 1, 1, 1, 1, 1)],
  ["all in one", things(11)],
  ["some here and there", things(3, 0, 1, 8, 0, 0, 2, 5)],
])("with %s", (_, all) => {
  test.each([1, 2, 3, 4, 5, 7, 100])("pages of %i have each item once, newest first, both ways", async (limit) => {
    const { there, back } = await walk(all, { limit });
    const { items } = await timeline(source(all), { limit: 1000 });
    expect(items).toHaveLength(all.length);
    expect(idsOf(there)).toEqual(idsOf([{ items, total: 0 }]));
    expect(there.slice(0, -1).every((page) => page.items.length === limit)).toBe(true);
    expect(there.every(({ total }) => total === all.length)).toBe(true);
    expect(idsOf(back.toReversed())).toEqual(idsOf(there));
    expect(back.every(({ items: page, total }) => page.length <= limit && total === all.length)).toBe(true);
  });
});

describe("a time", () => {
  const all = things(2, 2, 2, 2);
  const page = (since: Bound | undefined, until: Bound | undefined) =>
    timeline(source(all), { limit: 100, since, until });

  test.each([
    [undefined, undefined, 8],
    [1000, undefined, 6],
    [undefined, 1003, 6],
    [1000, 1003, 4],
    [1001, 1002, 0],
    [1003, 1000, 0],
    [0, 9999, 8],
  ])("filters: since %s until %s", async (since, until, count) => {
    const found = await page(since === undefined ? since : { at: since }, until === undefined ? until : { at: until });
    expect(found.items).toHaveLength(count);
    expect(found.total).toBe(count);
    expect(found).not.toHaveProperty("newer");
    expect(found).not.toHaveProperty("older");
  });

  test("stays a filter on all pages", async () => {
    const { there, back } = await walk(all, { limit: 3, since: { at: 1000 } });
    expect(idsOf(there)).toHaveLength(6);
    expect(there.map(({ total }) => total)).toEqual([6, 6]);
    expect(there.at(-1)).not.toHaveProperty("older");
    expect(back).toHaveLength(2);
  });

  test("within a millisecond is after every item of it", async () => {
    const within: Bound = { at: 1001, isWithin: true };
    expect((await page(within, undefined)).items.every(({ createdAt }) => createdAt > 1001)).toBe(true);
    expect((await page(undefined, within)).items.every(({ createdAt }) => createdAt <= 1001)).toBe(true);
    expect((await page(within, undefined)).total).toBe(4);
    expect((await page(undefined, { at: 500, isWithin: true })).items).toEqual([]);
    expect((await page({ at: 5000, isWithin: true }, undefined)).items).toEqual([]);
  });
});

test("a delete between pages removes only the deleted items from them and from the total", async () => {
  const all = things(1, 4, 2);
  const from = source(all);
  const first = await timeline(from, { limit: 3 });
  const second = await timeline(from, { limit: 2, until: first.older });
  // Both pages border on items of one millisecond.
  expect([first.older, second.newer]).toEqual([
    { at: 1001, below: 3 },
    { at: 1001, below: 3 },
  ]);
  const rest = all.filter(({ createdAt, id }) => createdAt !== 1001 || id === "id_0");
  const expected = idsOf([await timeline(source(rest), { limit: 100 })]);
  const next = await timeline(source(rest), { limit: 100, until: first.older });
  expect([idsOf([next]), next.total]).toEqual([expected.slice(2), rest.length]);
  expect(next.newer).toEqual({ at: 1001, below: 1 });
  const before = await timeline(source(rest), { limit: 100, since: second.newer });
  expect([idsOf([before]), before.total]).toEqual([expected.slice(0, 2), rest.length]);
  const none = all.filter(({ createdAt }) => createdAt !== 1001);
  for (const place of [first.older, second.older, { at: 1001, below: 0 }]) {
    const bounds: TimelineQuery[] = [
      { limit: 100, until: place },
      { limit: 100, since: place },
    ];
    const [older, newer] = await Promise.all(bounds.map((query) => timeline(source(none), query)));
    expect([older?.items.length, newer?.items.length, older?.total, newer?.total]).toEqual([1, 2, 3, 3]);
  }
});

test("items made between pages disturb none of them", async () => {
  const all = things(5, 5);
  const from = source(all);
  const first = await timeline(from, { limit: 4 });
  all.push({ createdAt: 1002, id: "id_new" }, { createdAt: 1001, id: "id_9" });
  const second = await timeline(from, { limit: 100, until: first.older });
  expect(idsOf([first, second])).toEqual(idsOf([await timeline(source(things(5, 5)), { limit: 100 })]));
  expect(second.total).toBe(12);
  const newest = await timeline(from, { limit: 100, since: second.newer });
  expect(newest.items.map(({ id }) => id)).toContain("id_new");
});

test("two places bound a part of the list", async () => {
  const { there } = await walk(things(3, 3), { limit: 2 });
  const part = await timeline(source(things(3, 3)), { limit: 100, since: there[2]?.newer, until: there[0]?.older });
  expect(idsOf([part])).toEqual(idsOf(there.slice(1, 2)));
});

test("an empty list has one empty page", async () => {
  expect(await timeline(source([]), { limit: 10 })).toEqual({ items: [], total: 0 });
});
