/** The egress log: what is written, what shares a line, and how little a flood costs. */

import { appendFile, mkdir, readFile, rename, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { eventually, tempDir } from "../../../test/harness/harness.ts";
import type { EgressEvent } from "./log.ts";
import { LogFiles } from "./log-file.ts";

const event: EgressEvent = {
  machine: "a",
  protocol: "tls",
  name: "api.test",
  port: 443,
  allowed: true,
  rule: "allow *",
};

test("equal events share a line, which says how many they were", async () => {
  const { log, lines } = await opened();
  for (let i = 0; i < 3; i++) log.decided(event);
  log.ended(event, { bytesIn: 10, bytesOut: 1 });
  log.ended(event, { bytesIn: 5, bytesOut: 1 });
  log.decided({ ...event, allowed: false, reason: "no" });
  await log.flush();
  const { machine: _, ...fields } = event;
  expect(await lines()).toEqual([
    { id: 1, at: 7, ...fields, count: 3, ended: 2, bytesIn: 15, bytesOut: 2 },
    { id: 2, at: 7, ...fields, allowed: false, reason: "no", count: 1, ended: 0, bytesIn: 0, bytesOut: 0 },
  ]);
});

test("a flood of different events is cut short, and says so", async () => {
  const { log, lines } = await opened();
  for (let port = 0; port < 10_000; port++) log.decided({ ...event, port });
  log.unseen("a", 5);
  await log.flush();
  const written = await lines();
  expect(written).toHaveLength(257);
  expect(written.at(-1)).toEqual({ id: 257, at: 7, dropped: 10_000 - 256 + 5 });
});

test("many machines are written a few at a time, each in its turn, and all at once when they are asked for", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const { log, directory } = await opened();
  const machines = Array.from({ length: 70 }, (_, n) => `m${n}`);
  await Promise.all(machines.map((machine) => mkdir(join(directory, machine))));
  const tell = () => machines.forEach((machine) => void log.decided({ ...event, machine }));
  const written = async () => {
    const files = machines.map((machine) => readFile(join(directory, machine, "egress.jsonl"), "utf8").catch(() => ""));
    return (await Promise.all(files)).join("").split("\n").length - 1;
  };
  tell();
  for (const soFar of [32, 64, 70]) {
    vi.advanceTimersByTime(250);
    await eventually(`${soFar} are written`, async () => (await written()) === soFar);
  }
  tell();
  await log.flush();
  expect(await written()).toBe(140);
});

test("no machine has more than two files of a bounded size, and only root reads them", async () => {
  const { log, folder } = await opened(4096);
  for (let round = 0; round < 100; round++) {
    log.decided({ ...event, port: round });
    await log.flush();
  }
  const files = await Promise.all(["egress.jsonl", "egress.1.jsonl"].map((name) => stat(join(folder, name))));
  for (const { size, mode } of files) {
    expect(size).toBeLessThanOrEqual(4096);
    expect(mode & 0o777).toBe(0o600);
  }
  const last = JSON.parse((await readFile(join(folder, "egress.jsonl"), "utf8")).trim().split("\n").at(-1) ?? "");
  expect(last.port).toBe(99);
});

test("lines are counted on by the next process, over a line that was cut short and over a missing file", async () => {
  const { log, lines, folder, directory } = await opened();
  log.decided(event);
  await log.flush();
  await appendFile(join(folder, "egress.jsonl"), '{"id":2,"at":7,"proto');
  const next = new LogFiles({ directory, now: () => 8 });
  next.decided(event);
  await next.flush();
  const text = await readFile(join(folder, "egress.jsonl"), "utf8");
  const whole = text.split("\n").filter((line) => line.endsWith("}"));
  expect(whole.map((line) => JSON.parse(line).id)).toEqual([1, 2]);
  await rename(join(folder, "egress.jsonl"), join(folder, "egress.1.jsonl"));
  const last = new LogFiles({ directory, now: () => 9 });
  last.decided(event);
  await last.flush();
  expect((await lines()).map(({ id }) => id)).toEqual([3]);
});

test("what a program says is cut to a length", async () => {
  const { log, lines } = await opened();
  log.decided({ ...event, path: "/".repeat(100_000), reason: "no".repeat(100_000) });
  await log.flush();
  const [line] = await lines();
  expect(line.path).toBe(`${"/".repeat(512)}…`);
  expect(line.reason).toHaveLength(513);
});

test("a flush waits for what is being written and for what came meanwhile", async () => {
  const { log, lines } = await opened();
  log.decided(event);
  const first = log.flush();
  log.decided({ ...event, port: 80 });
  await log.flush("a");
  expect((await lines()).map(({ port }) => port)).toEqual([443, 80]);
  await first;
});

test("bytes by host add up, also over a restart", async () => {
  const { log, folder, directory } = await opened();
  log.moved("a", "api.test", { bytesIn: 10, bytesOut: 1 }, true);
  log.moved("a", "api.test", { bytesIn: 5, bytesOut: 0 });
  await log.flush();
  const next = new LogFiles({ directory, now: () => 8 });
  next.moved("a", "api.test", { bytesIn: 1, bytesOut: 1 }, true);
  next.moved("a", "other.test", { bytesIn: 2, bytesOut: 2 }, true);
  await next.flush();
  expect(JSON.parse(await readFile(join(folder, "egress-hosts.json"), "utf8"))).toEqual({
    "api.test": { bytesIn: 16, bytesOut: 2, count: 2 },
    "other.test": { bytesIn: 2, bytesOut: 2, count: 1 },
  });
});

test("a machine without a folder is not written down, and holds nobody up", async () => {
  const { log, lines } = await opened();
  log.decided({ ...event, machine: "gone" });
  log.moved("gone", "api.test", { bytesIn: 1, bytesOut: 1 });
  log.decided(event);
  await log.flush();
  expect(await lines()).toHaveLength(1);
});

async function opened(mostBytes = 1 << 20) {
  const directory = await tempDir();
  const folder = join(directory, "a");
  await mkdir(folder);
  const log = new LogFiles({ directory, now: () => 7, mostBytes });
  const lines = async () =>
    (await readFile(join(folder, "egress.jsonl"), "utf8"))
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  return { log, lines, folder, directory };
}
