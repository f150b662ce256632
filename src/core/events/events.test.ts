/** Tests of the streams of events: order, cursors, gaps, and waiting for a session. */

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import type { Event } from "./event.ts";
import { Events, type Published } from "./events.ts";

const options = { run: "run", now: () => 7, kept: 3 };

function written(path: string): Event {
  return { type: "files.written", sessionId: "sbx_1", path };
}

/** the next `count` events of a project */
async function take(events: Events, count: number, after?: string): Promise<Published[]> {
  const stop = new AbortController();
  const taken: Published[] = [];
  for await (const event of events.follow("project", after, stop.signal)) {
    taken.push(event);
    if (taken.length === count) stop.abort();
  }
  return taken;
}

const paths = (taken: Published[]) => taken.map((event) => ("path" in event ? event.path : event.type));

test("a follower receives later events of its own project only, in order", async () => {
  const events = new Events(options);
  events.publish("project", written("before"));
  const taking = take(events, 2);
  events.publish("another", written("not mine"));
  events.publish("project", written("one"));
  events.publish("project", written("two"));
  expect(paths(await taking)).toEqual(["one", "two"]);
});

test("a follower continues after its cursor, whatever happened meanwhile", async () => {
  const events = new Events(options);
  for (const path of ["one", "two", "three"]) events.publish("project", written(path));
  const all = await take(events, 4, "other-0");
  expect(paths(all)).toEqual(["gap", "one", "two", "three"]);
  expect(paths(await take(events, 2, all[1]?.cursor))).toEqual(["two", "three"]);
});

test("a follower with a cursor of an earlier run, or older than the kept events, receives a gap first", async () => {
  const events = new Events(options);
  events.publish("project", written("one"));
  const [, one] = await take(events, 2, "earlier-5");
  for (const path of ["two", "three", "four", "five"]) events.publish("project", written(path));
  expect(paths(await take(events, 4, one?.cursor))).toEqual(["gap", "three", "four", "five"]);
  const [gap] = await take(events, 1, one?.cursor);
  expect(paths(await take(events, 3, gap?.cursor))).toEqual(["three", "four", "five"]);
});

test("a follower that is slower than the events receives a gap, and other followers receive each event", async () => {
  const events = new Events(options);
  const stop = new AbortController();
  const slow = events.follow("project", undefined, stop.signal)[Symbol.asyncIterator]();
  const first = slow.next();
  events.publish("project", written("one"));
  expect((await first).value).toMatchObject({ path: "one", at: 7 });
  for (const path of ["two", "three", "four", "five"]) events.publish("project", written(path));
  expect((await slow.next()).value).toMatchObject({ type: "gap" });
  expect((await slow.next()).value).toMatchObject({ path: "three" });
});

test("a project without events for long is dropped, which its followers see as a gap", async () => {
  const events = new Events(options);
  events.publish("project", written("one"));
  const [, one] = await take(events, 2, "other-0");
  const following = take(events, 2, one?.cursor);
  for (let i = 0; i < 200; i++) events.publish(`other-${i}`, written("x"));
  events.publish("project", written("two"));
  expect(paths(await following)).toEqual(["gap", "two"]);
});

test("a page has the kept events after its cursor, and the cursor of the next page", async () => {
  const events = new Events(options);
  expect((await events.page("project", undefined)).events).toEqual([]);
  events.publish("project", written("one"));
  const { events: first, next } = await events.page("project", undefined);
  expect(paths(first)).toEqual(["one"]);
  expect((await events.page("project", next)).events).toEqual([]);
  for (const path of ["two", "three", "four", "five"]) events.publish("project", written(path));
  expect(paths((await events.page("project", undefined)).events)).toEqual(["three", "four", "five"]);
  expect(paths((await events.page("project", next)).events)).toEqual(["gap", "three", "four", "five"]);
});

test("reading the events of many projects drops no project's events", async () => {
  const events = new Events(options);
  events.publish("project", written("one"));
  const stop = new AbortController();
  for (let i = 0; i < 1000; i++) {
    await events.page(`read-${i}`, undefined);
    events.follow(`followed-${i}`, undefined, stop.signal);
  }
  events.publish("another", written("two"));
  expect(paths((await events.page("project", undefined)).events)).toEqual(["one"]);
});

test("long texts are cut", async () => {
  const events = new Events(options);
  events.publish("project", written("x".repeat(4000)));
  expect(paths((await events.page("project", undefined)).events)).toEqual([`${"x".repeat(256)}…`]);
});

test("a malformed cursor is refused", () => {
  const events = new Events(options);
  for (const cursor of ["", "run", "run-", "run-x", "run--1", `${"r".repeat(65)}-1`])
    expect(() => events.follow("project", cursor, new AbortController().signal)).toThrow("not a cursor");
});

test("changed() resolves with the next event of its own session only", async () => {
  const events = new Events(options);
  const heard: string[] = [];
  void events.changed("sbx_1").then(() => heard.push("one"));
  void events.changed("sbx_2").then(() => heard.push("two"));
  events.publish("project", written("a"));
  await new Promise((resolve) => setImmediate(resolve));
  expect(heard).toEqual(["one"]);
});

test("a follower that stays holds no memory of past events", async () => {
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  const held = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const events = new Events(options);
  const stop = new AbortController();
  let heard = 0;
  const following = (async () => {
    for await (const _ of events.follow("project", undefined, stop.signal)) heard++;
  })();
  const flood = async (count: number) => {
    for (let each = 0; each < count; each++) {
      events.publish("project", written("file"));
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  await flood(1000);
  const before = held();
  await flood(30_000);
  expect(held() - before).toBeLessThan(2_000_000); // 9 MB if the follower kept them
  stop.abort();
  await following;
  expect(heard).toBe(31_000);
});
