/** How often a daemon was asked to end, and how a command ends its output. */

import { spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { setTimeout } from "node:timers/promises";
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

test("a command that exits leaves nothing unsaid to a slow reader", async () => {
  const program = `
    import { outputUntilClosed } from ${JSON.stringify(new URL("signals.ts", import.meta.url).href)};
    const output = outputUntilClosed(() => process.exit(1));
    for (let piece = 0; piece < 200; piece++) output.write(output.stdout, "x".repeat(10_000));
    await output.flush();
    process.exit(7);`;
  const child = spawn(process.execPath, ["--input-type=module-typescript", "-e", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  // More than its pipe takes, so that the program cannot end before it is read.
  await setTimeout(300);
  let length = 0;
  for await (const chunk of child.stdout) length += chunk.length;
  expect([length, (await exited)[0]]).toEqual([2_000_000, 7]);
});
