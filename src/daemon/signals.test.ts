/** How often a daemon was asked to end. */

import { EventEmitter } from "node:events";
import { expect, test } from "vitest";
import { handleSignals } from "./signals.ts";

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
