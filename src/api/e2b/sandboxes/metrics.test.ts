/** Metrics of sandboxes and of teams, from samples and counts that the test gives. */

import { expect, test } from "vitest";
import { apiClient } from "../../../../test/harness/api-client.ts";
import { key, sandbox, session, time } from "../../../../test/harness/fake-core.ts";
import { labelOf } from "../../../core/model/sandbox-label.ts";
import type { ConcurrencyQuery } from "../../../core/sessions/concurrency.ts";
import type { Sample, SampleQuery } from "../../../core/sessions/samples.ts";

const path = `/sandboxes/${labelOf(sandbox.id)}/metrics`;
const earlier = { ...session, id: "sbx_0000000000000000000000000000", createdAt: time - 3_600_000 };
const options = { token: null, headers: { "x-api-key": key } };
const seconds = time / 1000;

function sampleAt(at: number): Sample {
  const network = { received: 0, sent: 0 };
  return { at, processors: 0.5, memory: 300, cache: 100, disk: 7, processes: 1, network };
}

/** the metrics of a sandbox that had a session before, by their distance from now in seconds and their processors */
async function metricsOf(samples: number[], query = "", state = session.state) {
  const client = apiClient({
    "sandboxes.byId": async () => sandbox,
    "sessions.get": async () => ({ ...session, state }),
    "sessions.ofSandbox": async () => ({ items: [session, earlier] }),
    "sessions.samples": async (_: unknown, id: string, { from = 0, to = 0 }: SampleQuery) => {
      const times = (id === earlier.id ? [-3000] : samples).map((at) => time + at * 1000);
      return times.filter((at) => at >= from && at <= to).map(sampleAt);
    },
    "sessions.load": async () => ({ ...sampleAt(time), processors: 2 }),
  });
  const { status, json } = await client.ask("GET", path + query, undefined, options);
  expect(status).toBe(200);
  const metrics = json as { timestamp: string; cpuUsedPct: number }[];
  return metrics.map(({ timestamp, cpuUsedPct }) => [(Date.parse(timestamp) - time) / 1000, cpuUsedPct]);
}

test("a sandbox has the samples of all its sessions", async () => {
  expect(await metricsOf([-4, -2])).toEqual([
    [-3000, 50],
    [-4, 50],
    [-2, 50],
  ]);
});

test("the present follows once the last sample is old, for clients that do not poll for what is new", async () => {
  const now = [0, 200];
  expect(await metricsOf([-60])).toEqual([[-3000, 50], [-60, 50], now]);
  expect(await metricsOf([], `?start=${seconds - 60}`)).toEqual([now]);
  expect(await metricsOf([-60], `?start=${seconds - 1}`)).toEqual([]);
});

test("start and end choose the samples, whole seconds of them", async () => {
  const range = (from: number, to: number) => `?start=${seconds + from}&end=${seconds + to}`;
  expect(await metricsOf([-60.5, -40, -19.5], range(-60, -20))).toEqual([
    [-40, 50],
    [-19.5, 50],
  ]);
  expect(await metricsOf([-60], range(-50, -10))).toEqual([]);
  expect(await metricsOf([-60], `?end=${seconds - 2900}`)).toEqual([[-3000, 50]]);
});

test("a paused sandbox has its samples, and no present", async () => {
  expect(await metricsOf([-60], "", "paused")).toEqual([
    [-3000, 50],
    [-60, 50],
  ]);
});

test("file cache is not used memory", async () => {
  const client = apiClient({
    "sandboxes.byId": async () => sandbox,
    "sessions.get": async () => session,
    "sessions.ofSandbox": async () => ({ items: [session] }),
    "sessions.samples": async () => [sampleAt(time)],
  });
  const { json } = await client.ask("GET", path, undefined, options);
  expect(json).toEqual([
    expect.objectContaining({
      timestampUnix: seconds,
      memUsed: 200,
      memCache: 100,
      memTotal: 4096 * 2 ** 20,
      diskUsed: 7,
    }),
  ]);
});

test("a team has the number of sandboxes at once and of starts a second", async () => {
  const asked: ConcurrencyQuery[] = [];
  const client = apiClient({
    "sessions.concurrency": async (_: unknown, query: ConcurrencyQuery) => {
      asked.push(query);
      return [
        { at: time - 20_000, running: 3, started: 1 },
        { at: time - 10_000, running: 2, started: 20 },
      ];
    },
  });
  const ask = async (rest: string) =>
    (await client.ask("GET", `/teams/${sandbox.teamId}/metrics${rest}`, undefined, options)).json;
  const range = `start=${seconds - 2880}&end=${seconds}`;
  expect(await ask(`?${range}`)).toMatchObject([
    { timestampUnix: seconds - 20, concurrentSandboxes: 3, sandboxStartRate: 0.1 },
    { timestampUnix: seconds - 10, concurrentSandboxes: 2, sandboxStartRate: 2 },
  ]);
  expect(await ask(`/max?metric=concurrent_sandboxes&${range}`)).toMatchObject({
    timestampUnix: seconds - 20,
    value: 3,
  });
  expect(await ask(`/max?metric=sandbox_start_rate&${range}`)).toMatchObject({ timestampUnix: seconds - 10, value: 2 });
  await ask("");
  expect(asked[0]).toEqual({ from: time - 2_880_000, to: time, step: 10_000 });
  expect(asked.at(-1)).toEqual({ from: time - 86_400_000, to: time, step: 300_000 });
});

test("a time that no date has is refused", async () => {
  const client = apiClient({ "sessions.concurrency": async () => [{ at: 8.64e15 + 1, running: 0, started: 0 }] });
  const late = `?start=${8.64e12}&end=${8.64e12 + 1}`;
  const { status, json } = await client.ask("GET", `/teams/${sandbox.teamId}/metrics${late}`, undefined, options);
  expect([status, json.message]).toEqual([400, "Invalid request: `end` should be <= 8640000000000."]);
});
