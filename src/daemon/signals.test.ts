/** How often a daemon was asked to end. */

import { EventEmitter } from "node:events";
import { expect, test } from "vitest";
import { finishStart, handleSignals } from "./signals.ts";

test("one Ctrl-C counts once though npm passes it on, and another one later makes it hurry", async () => {
  const source = new EventEmitter();
  let time = 5000;
  const { asked, forced } = handleSignals(source, () => time);
  source.emit("SIGINT");
  await asked;
  time += 30;
  source.emit("SIGINT");
  expect(forced.aborted).toBe(false);
  time += 1000;
  source.emit("SIGINT");
  expect(forced.aborted).toBe(true);
});

test("another signal makes it hurry at once", () => {
  const source = new EventEmitter();
  const { forced } = handleSignals(source, () => 0);
  source.emit("SIGINT");
  source.emit("SIGTERM");
  expect(forced.aborted).toBe(true);
});

test("a start is finished after a signal, but not waited for after a second one", async () => {
  const source = new EventEmitter();
  const { promise, resolve } = Promise.withResolvers<string>();
  let exits = 0;
  let now = 0;
  const ending = handleSignals(source, () => now);
  const finished = finishStart(promise, ending, () => {
    exits++;
  });
  source.emit("SIGINT");
  await ending.asked;
  expect(exits).toBe(0);
  now = 5000;
  source.emit("SIGINT");
  expect(exits).toBe(1);
  resolve("daemon");
  expect(await finished).toEqual({ started: "daemon", isWanted: false });
  expect(await finishStart(Promise.resolve("daemon"), handleSignals(new EventEmitter()))).toEqual({
    started: "daemon",
    isWanted: true,
  });
});
