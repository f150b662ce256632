/** Tests of samples over a restart: the same series comes back, and the file stays small. */

import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { DirectoryLineFiles } from "../../store/line-files.ts";
import type { Context } from "../context.ts";
import { Samples } from "./samples.ts";

async function fixture() {
  const directory = await tempDir();
  const started: Samples[] = [];
  // One that still writes would make the directory again.
  onTestFinished(async () => void (await Promise.all(started.map((samples) => samples.close()))));
  const clock = { now: 1_000_000 };
  const machines = new Set(["sbx_1", "sbx_2"]);
  let cpuTime = 0;
  const usage = async () => {
    return { cpuTime: cpuTime++, memory: 5, cache: 4, disk: 6, processes: 1, network: { received: 2, sent: 3 } };
  };
  const errors: unknown[] = [];
  const start = () => {
    const context = {
      runtime: { machines: () => [...machines].map((id) => ({ id, usage })) },
      now: () => clock.now,
      logError: (error: unknown) => void errors.push(error),
      sampleFiles: new DirectoryLineFiles(directory, Number.POSITIVE_INFINITY),
    } as unknown as Context; // samples use nothing else
    const samples = new Samples(context, { interval: 10, points: 16, atOnce: 20, ended: 10 });
    samples.open();
    started.push(samples);
    return samples;
  };
  const look = async (samples: Samples, times: number, ms = 10) => {
    for (let each = 0; each < times; each++) {
      clock.now += ms;
      await samples.look();
    }
  };
  return { start, look, machines, clock, directory, errors };
}

test("a series goes on after a restart, also one whose session has ended", async () => {
  const { start, look, machines, errors } = await fixture();
  const first = start();
  await look(first, 50);
  machines.delete("sbx_2");
  await look(first, 1);
  const before = [first.of("sbx_1"), first.of("sbx_2")];
  expect(before[0]?.length).toBeGreaterThan(5);
  await first.close();
  const second = start();
  expect([second.of("sbx_1"), second.of("sbx_2")]).toEqual(before);
  await look(second, 20);
  expect(second.of("sbx_1")[0]?.at).toBeLessThan(before[0]?.at(-1)?.at ?? 0);
  expect(second.of("sbx_1").at(-1)?.at).toBeGreaterThan(before[0]?.at(-1)?.at ?? 0);
  await second.close();
  expect(errors).toEqual([]);
});

test("samples of a version without the cache are read", async () => {
  const { start, directory, look } = await fixture();
  const rows = [
    [1000, 5, 6, null, 1, 2, 3],
    [2000, 6, 6, 7, 1, 2, 3],
  ];
  await writeFile(join(directory, "samples.jsonl"), `${JSON.stringify({ s: "sbx_1", p: rows })}\n`);
  const samples = start();
  expect(samples.of("sbx_1")).toEqual([
    { at: 2000, processors: 0.001, memory: 6, disk: 7, processes: 1, network: { received: 2, sent: 3 } },
  ]);
  await look(samples, 1);
  expect(samples.of("sbx_1")[1]).toMatchObject({ cache: 4 });
});

test("a crash loses the last half minute", async () => {
  const { start, look, clock } = await fixture();
  const crashed = start();
  await look(crashed, 20, 10_000);
  const samples = start().of("sbx_1");
  expect(clock.now - (samples.at(-1)?.at ?? 0)).toBeLessThanOrEqual(30_000);
});

test("the file is written anew before it grows to many times of what is kept", async () => {
  const { start, look, directory, machines } = await fixture();
  const samples = start();
  for (let each = 0; each < 400; each++) machines.add(`sbx_many${each}`);
  await look(samples, 1200, 30_000);
  const before = samples.of("sbx_1");
  await samples.close();
  expect((await stat(join(directory, "samples.jsonl"))).size).toBeLessThan(3 << 20);
  expect(start().of("sbx_1")).toEqual(before);
});
