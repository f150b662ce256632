/** Tests of the harness: one that never fails would let every other test pass. */

import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { cpus, uptime } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { eventually, tempDir } from "./harness.ts";
import { reservedPort } from "./network/reserved-port.ts";
import { idleTime, stopwatch } from "./stopwatch.ts";

describe("tempDir", () => {
  test("removes the directory and its content when its stack is undone", async () => {
    const undo = new AsyncDisposableStack();
    const path = await tempDir(undo);
    await writeFile(join(path, "file"), "content");
    await undo.disposeAsync();
    expect(existsSync(path)).toBe(false);
  });

  test("gives each caller its own directory", async () => {
    expect(await tempDir()).not.toBe(await tempDir());
  });
});

describe("eventually", () => {
  test("returns the first value that is neither undefined nor false", async () => {
    const values = [undefined, false, 0] as const;
    let calls = 0;
    expect(await eventually("a value", () => values[calls++])).toBe(0);
  });

  test("fails with the name of the condition and the last error", async () => {
    const cause = new Error("not there");
    const waiting = eventually("the file appears", () => Promise.reject(cause), { timeoutMs: 20 });
    await expect(waiting).rejects.toMatchObject({ message: "Waited 20 ms in vain: the file appears", cause });
  });
});

test("a stopwatch counts waiting on an idle host, and nothing while other programs have every processor", () => {
  const host = { at: 5000, idle: 700 };
  const lasted = stopwatch(
    () => host.at,
    () => host.idle,
  );
  host.at += 3000;
  expect(lasted()).toBe(0);
  // Two processors had nothing to do.
  host.at += 3000;
  host.idle += 6000;
  expect(lasted()).toBe(6000);
  host.idle += 6000;
  expect(lasted()).toBe(6000);
  // Of this host the numbers are plausible.
  expect(idleTime()).toBeGreaterThan(0);
  expect(idleTime()).toBeLessThan((uptime() + 60) * 1000 * cpus().length);
});

test("a reserved port is given to one test only, until that is over", async () => {
  const [first, second] = [new AsyncDisposableStack(), new AsyncDisposableStack()];
  // Ports that no daemon of a test has, and another run of this test hardly.
  const port = 14_000 + (process.pid % 900);
  const choices = [port, port, port + 1];
  const choose = () => choices.shift() ?? 0;
  expect(await reservedPort(first, choose)).toBe(port);
  expect(await reservedPort(second, choose)).toBe(port + 1);
  await first.disposeAsync();
  expect(await reservedPort(second, () => port)).toBe(port);
  await second.disposeAsync();
});
