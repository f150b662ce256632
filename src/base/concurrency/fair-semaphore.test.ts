/** How many callers work at a time, whose turn is next, and that slow or waiting callers keep no other team away. */

import { expect, test } from "vitest";
import { FairSemaphore } from "./fair-semaphore.ts";

/** work that ends when it is let, and the order in which it began */
function crowd(turns: FairSemaphore) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const begin = (team: string, name: string) =>
    turns.run(team, () => {
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
  const { begun, begin, end } = crowd(new FairSemaphore({ ofAll: 2 }));
  const work = ["a1", "a2", "a3", "a4", "b1", "b2"].map((name) => begin(name[0] ?? "", name));
  expect(begun).toEqual(["a1", "a2"]);
  for (const name of ["a1", "a2", "a3", "b1", "a4", "b2"]) await end(name);
  expect(begun).toEqual(["a1", "a2", "a3", "b1", "a4", "b2"]);
  await Promise.all(work);
});

test("work that fails gives its turn to the next, and places that nobody waits for are free", async () => {
  const turns = new FairSemaphore({ ofAll: 1 });
  const { begun, begin, end } = crowd(turns);
  const failing = turns.run("a", () => Promise.reject(new Error("it failed")));
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
  const { begun, begin, end } = crowd(new FairSemaphore({ ofAll: 1, patience: 1 }));
  const slow = begin("a", "slow");
  const others = ["next", "last"].map((name) => begin("a", name));
  await expect.poll(() => begun).toEqual(["slow", "next", "last"]);
  for (const name of ["slow", "next", "last"]) await end(name);
  await Promise.all([slow, ...others]);
});

test("a caller that gives up leaves the queue at once, and its work never begins", async () => {
  const turns = new FairSemaphore({ ofAll: 1 });
  const { begun, begin, end } = crowd(turns);
  const first = begin("a", "first");
  const left = new AbortController();
  const leaving = turns.run("a", async () => void begun.push("leaving"), left.signal);
  const last = begin("a", "last");
  left.abort(new Error("it left"));
  await expect(leaving).rejects.toThrow("it left");
  await end("first");
  expect(begun).toEqual(["first", "last"]);
  await end("last");
  await Promise.all([first, last]);
  await expect(turns.run("a", async () => 1, left.signal)).rejects.toThrow("it left");
});

test("callers of one team wait for each other, and not for another team", async () => {
  const { begun, begin, end } = crowd(new FairSemaphore({ ofTeam: 1 }));
  const work = ["a1", "a2", "b1", "a3"].map((name) => begin(name[0] ?? "", name));
  await expect.poll(() => begun).toEqual(["a1", "b1"]);
  for (const name of ["a1", "a2", "a3", "b1"]) await end(name);
  expect(begun).toEqual(["a1", "b1", "a2", "a3"]);
  await Promise.all(work);
});

test("a team that may not work yet does not delay the team behind it", async () => {
  const { begun, begin, end } = crowd(new FairSemaphore({ ofAll: 2, ofTeam: 1 }));
  const work = ["a1", "b1", "a2", "c1"].map((name) => begin(name[0] ?? "", name));
  await end("b1");
  expect(begun).toEqual(["a1", "b1", "c1"]);
  for (const name of ["a1", "c1", "a2"]) await end(name);
  await Promise.all(work);
});

test("only so many callers of a team wait, and one that gives up makes room", async () => {
  const turns = new FairSemaphore({ ofTeam: 1, waiting: 1 });
  const leave = await turns.enter("a");
  const left = new AbortController();
  const waiting = turns.enter("a", left.signal);
  await expect(turns.enter("a")).rejects.toThrow("too many wait already");
  (await turns.enter("b"))();
  left.abort(new Error("it left"));
  await expect(waiting).rejects.toThrow("it left");
  const next = turns.enter("a");
  leave();
  (await next)();
});

test("a caller that does not wait gets a turn only if one is free", () => {
  const turns = new FairSemaphore({ ofTeam: 2, ofAll: 3 });
  const [first, second, third] = [turns.tryEnter("a"), turns.tryEnter("a"), turns.tryEnter("a")];
  expect([first, second, third].map((leave) => leave !== undefined)).toEqual([true, true, false]);
  expect(turns.tryEnter("b")).toBeDefined();
  expect(turns.tryEnter("c")).toBeUndefined();
  first?.();
  first?.();
  expect(turns.tryEnter("c")).toBeDefined();
  expect(turns.tryEnter("a")).toBeUndefined();
});
