/** Series of samples of machines whose use and time the test decides. */

import { expect, test } from "vitest";
import type { Machine, Runtime } from "../ports/runtime.ts";
import { Samples } from "./samples.ts";

/** machines that use one of two processors, and whose memory is the time */
class Scene {
  now = 1_000_000;
  ids: string[];
  asked: string[] = [];
  readonly samples: Samples;

  constructor(ids: string[], limits = {}) {
    this.ids = ids;
    const usage = async (id: string) => {
      this.asked.push(id);
      const network = { received: this.now, sent: 2 * this.now };
      return { cpuTime: this.now / 2, memory: this.now, peakMemory: 0, processes: 3, network, outOfMemoryKills: 0 };
    };
    const machines = () => this.ids.map((id) => ({ id, usage: () => usage(id) }) as unknown as Machine);
    const runtime = { machines } as unknown as Runtime;
    const logError = (error: unknown) => {
      throw error;
    };
    const all = { interval: 10_000, points: 8, atOnce: 20, ended: 2, ...limits };
    this.samples = new Samples({ runtime, now: () => this.now, logError }, all);
  }

  async pass(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      await this.samples.look();
      this.now += 1000;
    }
  }
}

test("a sample has the processors since the one before, and what is used at its moment", async () => {
  const scene = new Scene(["a"]);
  await scene.pass(31);
  const samples = scene.samples.of("a");
  expect(samples.map(({ at }) => at)).toEqual([1_010_000, 1_020_000, 1_030_000]);
  expect(samples[0]).toEqual({
    ...{ at: 1_010_000, processors: 0.5, memory: 1_010_000, processes: 3 },
    network: { received: 1_010_000, sent: 2_020_000 },
  });
  expect(scene.samples.of("a", { from: 1_020_000, to: 1_020_000 })).toEqual(samples.slice(1, 2));
  expect(scene.samples.of("other")).toEqual([]);
});

test("a series keeps to its number of points, covers the whole time, and is taken less often then", async () => {
  const scene = new Scene(["a"]);
  await scene.pass(3600);
  const samples = scene.samples.of("a");
  expect(samples.length).toBeGreaterThan(3);
  expect(samples.length).toBeLessThan(8);
  expect(samples[0]?.at).toBeLessThan(1_000_000 + 1_800_000);
  expect(new Set(samples.map(({ processors }) => processors))).toEqual(new Set([0.5]));
  expect(scene.asked.length).toBeLessThan(60);
});

test("samples of one step become one, with the average of the memory", async () => {
  const scene = new Scene(["a"]);
  await scene.pass(61);
  const [first, ...more] = scene.samples.of("a", { step: 40_000 });
  expect(first).toMatchObject({ at: 1_030_000, memory: 1_020_000, processors: 0.5 });
  expect(more).toHaveLength(1);
});

test("a round looks at a bounded number of machines, and each has its turn", async () => {
  const scene = new Scene(["a", "b", "c", "d", "e"], { atOnce: 2 });
  await scene.samples.look();
  expect(scene.asked).toHaveLength(2);
  await scene.pass(3);
  expect(new Set(scene.asked).size).toBe(5);
});

test("the samples of the sessions that ended last stay readable", async () => {
  const scene = new Scene(["a", "b", "c"]);
  await scene.pass(11);
  for (const ids of [["b", "c"], ["c"], []]) {
    scene.ids = ids;
    await scene.samples.look();
  }
  expect(["a", "b", "c"].map((id) => scene.samples.of(id).length)).toEqual([0, 1, 1]);
});
