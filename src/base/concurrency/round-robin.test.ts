/** Tests of taking turns: a few at a time, in order, and finished items are removed. */

import { expect, test } from "vitest";
import { nextInTurn, type TurnState } from "./round-robin.ts";

test("each that is due has its turn before any has a second one", () => {
  const all = new Map("abcde".split("").map((key): [string, TurnState] => [key, "due"]));
  const turns = [1, 2, 3].map(() => nextInTurn(all, 2, (state) => state).map(([key]) => key));
  expect(turns).toEqual([
    ["a", "b"],
    ["c", "d"],
    ["e", "a"],
  ]);
});

test("what is left keeps its place, and what is over is forgotten, as far as it was looked at", () => {
  const all = new Map<string, TurnState>([
    ["a", "over"],
    ["b", "left"],
    ["c", "due"],
    ["d", "over"],
  ]);
  expect(nextInTurn(all, 1, (state) => state)).toEqual([["c", "due"]]);
  expect([...all.keys()]).toEqual(["b", "d", "c"]);
});
