/** Tests of how busy a machine is, from two samples of its processor time. */

import { expect, test } from "vitest";
import type { Machine, Usage } from "../ports/runtime.ts";
import { Loads } from "./load.ts";

test("the first call samples twice, and later ones compare with the sample before", async () => {
  let now = 1000;
  const times = [0, 50, 1050, 1050];
  const usage = async (): Promise<Usage> => {
    now += 100;
    return { ...nothing, cpuTime: times.shift() ?? 0 };
  };
  // The load uses nothing else of a machine.
  const machine = { id: "sbx_1", usage } as Partial<Machine> as Machine;
  const loads = new Loads(() => now);
  expect((await loads.of(machine)).processors).toBe(0.5);
  now += 400;
  expect((await loads.of(machine)).processors).toBe(2);
  now += 400;
  expect(await loads.of(machine)).toMatchObject({ processors: 0, cpuTime: 1050 });
});

const nothing: Usage = {
  cpuTime: 0,
  memory: 0,
  peakMemory: 0,
  processes: 0,
  network: { received: 0, sent: 0 },
  outOfMemoryKills: 0,
};
