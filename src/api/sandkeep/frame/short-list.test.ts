/** Pages of short lists: each item is on one page, also if others are added or deleted meanwhile. */

import { expect, test } from "vitest";
import { printShortList } from "./short-list.ts";

const item = (id: string, createdAt: number) => ({ id, createdAt });
const items = [item("c", 2), item("a", 1), item("b", 2), item("e", 9), item("d", 3)];
const page = (all: typeof items, limit?: number, cursor?: string | null) =>
  printShortList("keys", all, { limit, cursor: cursor ?? undefined }, ({ id }) => id);

test("a list without a limit is whole, the oldest first", () => {
  expect(page(items)).toEqual({ keys: ["a", "b", "c", "d", "e"], next: null });
});

test("a page continues after the place of the last item, also if that is deleted or others are new", () => {
  const first = page(items, 2);
  expect(first.keys).toEqual(["a", "b"]);
  const changed = [...items.filter(({ id }) => id !== "b"), item("0", 1), item("f", 10)];
  const second = page(changed, 3, first.next);
  expect(second.keys).toEqual(["c", "d", "e"]);
  expect(page(changed, 3, second.next)).toEqual({ keys: ["f"], next: null });
  expect(page(items, 5)).toMatchObject({ next: null });
});

test("a cursor of another list, and a text that is none, are refused", () => {
  const { next } = printShortList("teams", items, { limit: 1 }, ({ id }) => id);
  expect(() => page(items, 1, next)).toThrow("the cursor is of another list");
  for (const cursor of ["x", Buffer.from("[1]").toString("base64url"), Buffer.from("{").toString("base64url")])
    expect(() => page(items, 1, cursor)).toThrow("this is not a cursor");
});
