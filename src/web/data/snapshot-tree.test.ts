/** Snapshots in the order of their families. */

import { expect, test } from "vitest";
import { placed } from "./snapshot-tree.ts";

const member = (id: string, parentId: string | null, createdAt: number) => ({ id, parentId, createdAt });

test("each snapshot comes after its parent, the newest families and members first", () => {
  const rows = placed([
    member("base", null, 1),
    member("deps", "base", 2),
    member("old", "base", 3),
    member("work", "deps", 4),
    member("orphan", "deleted", 5),
  ]);
  expect(rows.map(({ item, depth, isLast }) => [item.id, depth, isLast])).toEqual([
    ["orphan", 0, false],
    ["base", 0, true],
    ["old", 1, false],
    ["deps", 1, true],
    ["work", 2, true],
  ]);
  expect(rows.at(-1)?.passing).toEqual([false]);
});

test("a family of thousands of generations has a place for each, and lines of bounded length", () => {
  const many = Array.from({ length: 5000 }, (_, at) => member(`s${at}`, at === 0 ? null : `s${at - 1}`, at));
  const rows = placed(many);
  expect(rows.length).toBe(5000);
  expect(rows.at(-1)?.passing.length).toBeLessThan(20);
});

test("snapshots that are each other's parents do not hang the page", () => {
  expect(placed([member("a", "b", 1), member("b", "a", 2)])).toEqual([]);
});
