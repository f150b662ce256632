/**
 * Tests of limited concurrency: how many callers work at a time, whose turn is next, and that slow work blocks no one
 * for long.
 */

import { expect, test } from "vitest";
import { Shares, Turns } from "./limited-concurrency.ts";

/** work that ends when it is let, and the order in which it began */
function crowd(turns: Turns) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const begin = (team: string, name: string) =>
    turns.take(team, () => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.set(name, resolve));
    });
  const end = async (name: string) => {
    ends.get(name)?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { begun, begin, end };
}

test("few work at once, and teams take turns however many one of them has waiting", async () => {
  const { begun, begin, end } = crowd(new Turns(2, 60_000));
  const work = ["a1", "a2", "a3", "a4", "b1", "b2"].map((name) => begin(name[0] ?? "", name));
  expect(begun).toEqual(["a1", "a2"]);
  for (const name of ["a1", "a2", "a3", "b1", "a4", "b2"]) await end(name);
  expect(begun).toEqual(["a1", "a2", "a3", "b1", "a4", "b2"]);
  await Promise.all(work);
});

test("work that fails gives its turn to the next, and places that nobody waits for are free", async () => {
  const turns = new Turns(1, 60_000);
  const { begun, begin, end } = crowd(turns);
  const failing = turns.take("a", () => Promise.reject(new Error("it failed")));
  const first = begin("a", "first");
  await expect(failing).rejects.toThrow("it failed");
  await expect.poll(() => begun).toEqual(["first"]);
  await end("first");
  await first;
  const second = begin("a", "second");
  expect(begun).toEqual(["first", "second"]);
  await end("second");
  await second;
});

test("work that takes too long gives its turn away once, and goes on", async () => {
  const { begun, begin, end } = crowd(new Turns(1, 1));
  const slow = begin("a", "slow");
  const others = ["next", "last"].map((name) => begin("a", name));
  await expect.poll(() => begun).toEqual(["slow", "next", "last"]);
  for (const name of ["slow", "next", "last"]) await end(name);
  await Promise.all([slow, ...others]);
});

test("a caller that gives up leaves the queue at once, and its work never begins", async () => {
  const turns = new Turns(1, 60_000);
  const { begun, begin, end } = crowd(turns);
  const first = begin("a", "first");
  const left = new AbortController();
  const leaving = turns.take("a", async () => void begun.push("leaving"), left.signal);
  const last = begin("a", "last");
  left.abort(new Error("it left"));
  await expect(leaving).rejects.toThrow("it left");
  await end("first");
  expect(begun).toEqual(["first", "last"]);
  await end("last");
  await Promise.all([first, last]);
  await expect(turns.take("a", async () => 1, left.signal)).rejects.toThrow("it left");
});

test("a team holds only so many shares, and all teams together only so many", () => {
  const shares = new Shares({ ofTeam: 2, ofAll: 3 });
  const [first, second, third] = [shares.take("a"), shares.take("a"), shares.take("a")];
  expect([first, second, third].map((share) => share !== undefined)).toEqual([true, true, false]);
  expect(shares.take("b")).toBeDefined();
  expect(shares.take("c")).toBeUndefined();
  first?.();
  first?.();
  expect(shares.take("c")).toBeDefined();
  expect(shares.take("a")).toBeUndefined();
});
