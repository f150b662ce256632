/** What a sandbox used in a part of its time. */

import { expect, test } from "vitest";
import type { EgressLine } from "../egress/egress-log.ts";
import type { Sample } from "./samples.ts";
import { hostsOf, memoryHours, usedIn } from "./usage-in.ts";

const sample = (at: number, processors: number, bytesIn: number) =>
  ({ at, processors, bytesIn, bytesOut: 0 }) as Sample;
const load = {
  session: { createdAt: 0, startedAt: 1000, endedAt: 5000, memory: 2048 },
  samples: [sample(2000, 1, 100), sample(4000, 0.5, 300)],
};

test("the whole time has all that was measured", () => {
  const { memoryHours: hours, ...used } = usedIn([load], { from: 0, to: 9000 });
  expect(used).toEqual({ durationMs: 4000, cpuMs: 2000, bytesIn: 300, bytesOut: 0 });
  expect(hours).toBeCloseTo(memoryHours(2048, 4000));
  expect(memoryHours(1536, 3_600_000)).toBe(1.5);
});

test("a sample that began before the stretch counts in part", () => {
  expect(usedIn([load], { from: 3000, to: 9000 })).toMatchObject({ durationMs: 2000, cpuMs: 500, bytesIn: 100 });
  expect(usedIn([load], { from: 6000, to: 9000 })).toMatchObject({ durationMs: 0, cpuMs: 0, bytesIn: 0 });
});

test("a session that goes on lasts to the end of the stretch", () => {
  const session = { ...load.session, endedAt: null };
  expect(usedIn([{ session, samples: [] }], { from: 0, to: 9000 })).toMatchObject({ durationMs: 8000 });
});

test("hosts have the bytes of allowed connections, most first", () => {
  const line = (name: string, allowed: boolean, bytesIn: number) =>
    ({ id: 1, sessionId: "", name, allowed, count: 1, bytesIn, bytesOut: 1 }) as EgressLine;
  const lines = [line("a", true, 5), line("b", true, 10), line("a", true, 6), line("c", false, 99)];
  expect(hostsOf(lines)).toEqual([
    { host: "a", connections: 2, bytesIn: 11, bytesOut: 2 },
    { host: "b", connections: 1, bytesIn: 10, bytesOut: 1 },
  ]);
});
