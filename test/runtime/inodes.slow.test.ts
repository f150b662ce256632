/** Fifty generations of a busy sandbox, in random order of all ways in which one follows another: see inode-life.ts. */

import { expect, onTestFinished, test } from "vitest";
import { dismiss } from "../conformance/runtime/host.ts";
import { linuxHost } from "../harness/linux-host.ts";
import { expectNoCollision, expectSameNumbers, lookAt, next, type Step, work } from "./inode-life.ts";

const host = linuxHost({ pool: { hot: 2, warm: 2 } });
const steps: Step[] = ["stop", "live", "stop", "fork", "stop", "stop", "restore"];

test("over fifty generations no two files share a number, and untouched files keep theirs", {
  timeout: 3_600_000,
}, async () => {
  let machine = await host().boot();
  onTestFinished(() => dismiss(host(), machine.id));
  const kept: string[] = [];
  for (let generation = 0; generation < 50; generation++) {
    const step = steps[generation % steps.length] ?? "stop";
    await work(machine, generation, generation % 5 === 0);
    const worked = await lookAt(machine);
    expectNoCollision(worked, `in generation ${generation}`);
    machine = await next(host(), machine, step, kept);
    const after = await lookAt(machine);
    expectNoCollision(after, `after ${step} of generation ${generation}`);
    if (step !== "restore") expectSameNumbers(worked, after, `after ${step} of generation ${generation}`);
  }
  expect(await host().runtime.snapshots.list()).toHaveLength(kept.length);
});
