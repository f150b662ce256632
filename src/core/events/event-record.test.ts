/** Tests of events over restarts and crashes of the daemon: a follower misses nothing, or receives a gap. */

import { appendFile, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, onTestFinished, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { DirectoryLineFiles } from "../../store/line-files.ts";
import type { Event } from "./event.ts";
import { Events, type Published } from "./events.ts";

let runs = 0;

async function fixture(mostBytes?: number) {
  const directory = await tempDir();
  const errors: unknown[] = [];
  const started: Events[] = [];
  // One that still writes would make the directory again.
  onTestFinished(async () => void (await Promise.all(started.map((events) => events.close()))));
  let alive = {};
  /** a new daemon; an earlier one writes no more */
  const start = (boot = "boot1") => {
    const self = {};
    alive = self;
    const files = new DirectoryLineFiles(directory, mostBytes);
    const append = files.append.bind(files);
    files.append = async (name, text) => (alive === self ? append(name, text) : undefined);
    const logError = (error: unknown) => void errors.push(error);
    const events = new Events({ run: `run${++runs}`, boot, now: () => 7, kept: 3, files, logError });
    started.push(events);
    return events;
  };
  return { start, directory, errors };
}

const written = (path: string): Event => ({ type: "files.written", sessionId: "sbx_1", path });
const paths = (events: Published[]) => events.map((event) => ("path" in event ? event.path : event.type));

function publish(events: Events, ...names: string[]) {
  for (const name of names) events.publish("prj_1", written(name));
}

async function pathsAfter(events: Events, cursor: string) {
  return paths((await events.page("prj_1", cursor)).events);
}

test("a follower continues over a restart without a loss, a repeat or a gap", async () => {
  const { start, errors } = await fixture();
  const first = start();
  publish(first, "one", "two");
  const [one] = (await first.page("prj_1", undefined)).events;
  await first.close();
  const second = start();
  expect(await pathsAfter(second, one?.cursor ?? "")).toEqual(["two"]);
  publish(second, "three");
  await second.close();
  const third = start();
  expect(await pathsAfter(third, one?.cursor ?? "")).toEqual(["two", "three"]);
  expect(errors).toEqual([]);
});

test("a write that is under way when the daemon ends is waited for", async () => {
  const { start } = await fixture();
  const first = start();
  publish(first, "one");
  const [one] = (await first.page("prj_1", undefined)).events;
  const writing = first.page("prj_1", "other-1");
  await Promise.resolve();
  await first.close();
  await writing;
  expect(await pathsAfter(start(), one?.cursor ?? "")).toEqual([]);
});

test("more events are on the disk than in memory, and a follower from far back gets each", async () => {
  const { start } = await fixture();
  const first = start();
  publish(first, "0");
  const [zero] = (await first.page("prj_1", undefined)).events;
  const many = Array.from({ length: 2500 }, (_, i) => `${i + 1}`);
  publish(first, ...many);
  await first.close();
  const second = start();
  const stop = new AbortController();
  const seen: Published[] = [];
  for await (const event of second.follow("prj_1", zero?.cursor, stop.signal)) {
    seen.push(event);
    if (seen.length === many.length) publish(second, "last");
    if (seen.length === many.length + 1) stop.abort();
  }
  expect(paths(seen)).toEqual([...many, "last"]);
  const page = await second.page("prj_1", zero?.cursor);
  expect([page.events.length, page.next]).toEqual([1000, page.events.at(-1)?.cursor]);
});

test("after a crash a follower gets what was written and then a gap, and no cursor names two events", async () => {
  const { start } = await fixture();
  const crashed = start();
  publish(crashed, "one", "two");
  const [one] = (await crashed.page("prj_1", undefined)).events;
  await crashed.page("prj_1", "other-1"); // looks on the disk, and so writes
  publish(crashed, "lost");
  const lost = (await crashed.page("prj_1", undefined)).events.at(-1);
  const next = start();
  expect(await pathsAfter(next, one?.cursor ?? "")).toEqual(["two", "gap"]);
  publish(next, "three", "four");
  expect(await pathsAfter(next, lost?.cursor ?? "")).toEqual(["gap", "gap", "three", "four"]);
  await next.close();
  const last = start();
  expect(await pathsAfter(last, one?.cursor ?? "")).toEqual(["two", "gap", "three", "four"]);
});

test("after a restart of the host, which may lose what was written last, there is a gap", async () => {
  const { start } = await fixture();
  const first = start();
  publish(first, "one", "two");
  const [one] = (await first.page("prj_1", undefined)).events;
  await first.close();
  expect(await pathsAfter(start("boot2"), one?.cursor ?? "")).toEqual(["two", "gap"]);
});

test("a line that a crash of the host has damaged is a gap, and the next line is whole", async () => {
  const { start, directory } = await fixture();
  const first = start();
  publish(first, "one", "two");
  const [one] = (await first.page("prj_1", undefined)).events;
  await first.close();
  await appendFile(join(directory, "prj_1.jsonl"), '{"type":"files.wri');
  const second = start();
  publish(second, "three");
  await second.close();
  const third = start();
  expect(await pathsAfter(third, one?.cursor ?? "")).toEqual(["two", "three"]);
  await third.close();
  await writeFile(join(directory, "prj_1.jsonl"), "\0".repeat(5000));
  expect(await pathsAfter(start(), one?.cursor ?? "")).toEqual(["gap"]);
});

test("a project that is dropped from memory keeps its cursors", async () => {
  const { start } = await fixture();
  const events = start();
  publish(events, "one", "two");
  const [one] = (await events.page("prj_1", undefined)).events;
  for (let i = 0; i < 250; i++) {
    events.publish(`prj_other${i}`, written("x"));
    // An event is written before its project is dropped.
    if (i % 50 === 0) await events.page(`prj_other${i}`, "other-1");
  }
  await events.page("prj_1", "other-1");
  for (let i = 0; i < 250; i++) events.publish(`prj_other${i}`, written("y"));
  expect(await pathsAfter(events, one?.cursor ?? "")).toEqual(["two"]);
  await events.close();
});

test("the events of a deleted project are gone", async () => {
  const { start, directory } = await fixture();
  const events = start();
  publish(events, "one");
  await events.forget("prj_1");
  await events.close();
  expect(await readdir(directory)).toEqual([]);
});

test("a hundred thousand events grow neither the memory nor the disk beyond their limits", async () => {
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  const { start, directory } = await fixture(64 << 10);
  const events = start();
  const flood = async (count: number) => {
    for (let each = 0; each < count; each++) {
      publish(events, "file");
      if (each % 1000 === 0) await events.page("prj_1", "other-1");
    }
    await events.page("prj_1", "other-1");
    collect();
    return process.memoryUsage().heapUsed;
  };
  const before = await flood(20_000);
  expect((await flood(80_000)) - before).toBeLessThan(2_000_000);
  const sizes = await Promise.all(
    (await readdir(directory)).map(async (name) => (await stat(join(directory, name))).size),
  );
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(512 << 10);
  await events.close();
});
