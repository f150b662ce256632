/**
 * How netd hands connections over: few of each machine at a time, so that a neighbour's connection never waits behind
 * many of a machine that floods. A stand-in for the egress process prints the machine of each connection.
 */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { eventually, tempDir } from "../harness/harness.ts";
import { linesOf, openInternet } from "../internet/internet.ts";
import { webAddress } from "../internet/internet-names.ts";
import { Probe } from "../internet/network-probe.ts";
import { has, needs } from "../runner/needs.ts";

/** the bound of guest/netd/netd.c */
const untaken = 4;

const undo = new AsyncDisposableStack();
let probe: Probe;

/** at each connection of the neighbour, says that it has started two of the other's */
const standIn = `
let hostile;
process.on("message", ({ kind, id, machine }) => {
  if (kind !== "tcp") return;
  console.error("connection of " + machine);
  if (machine === "hostile") hostile = id;
  else process.send("taken " + hostile + " 2");
});
process.on("disconnect", () => process.exit(0));
`;

beforeAll(async () => {
  if (!has("root")) return;
  const internet = await openInternet(undo);
  const egress = join(await tempDir(undo), "stand-in.cjs");
  await writeFile(egress, standIn);
  probe = await Probe.start(undo, internet.host, { sanitized: true, egress });
  for (const machine of ["hostile", "neighbour"]) await probe.admit(machine);
});
afterAll(() => undo.disposeAsync());
beforeEach((context) => needs(context, "root", "the command python3"));

test("a neighbour's connection waits for only a few of a flooding machine, which gets more as some are started", async () => {
  const connect = (machine: string, count: number) =>
    probe.spawn(
      undo,
      machine,
      `held = [tcp("${webAddress}", 7) for i in range(${count})]\nprint("open", flush=True)\nsys.stdin.read()\n`,
    );
  expect(await linesOf(connect("hostile", 20))()).toBe("open");
  await eventually("the first are handed over", () => heard("hostile") === untaken);
  expect(await linesOf(connect("neighbour", 1))()).toBe("open");
  await eventually("the neighbour's is handed over", () => heard("neighbour") === 1);
  await eventually("two more are handed over", () => heard("hostile") === untaken + 2);
  expect(await linesOf(connect("neighbour", 1))()).toBe("open");
  await eventually("again", () => heard("neighbour") === 2 && heard("hostile") === untaken + 4);
  expect(probe.log).not.toMatch(/Sanitizer|runtime error|Ignored/);
});

function heard(machine: string): number {
  return probe.log.split(`connection of ${machine}\n`).length - 1;
}
