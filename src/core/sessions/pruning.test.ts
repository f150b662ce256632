/** Tests of a pruning round outside the store: output is deleted first, and a snapshot's files keep its session. */

import { expect, test } from "vitest";
import type { Context } from "../context.ts";
import type { PrunePage, PruneQuery } from "../ports/store.ts";
import { Pruning } from "./pruning.ts";

const now = 1_800_000_000_000;
const hour = 3_600_000;

interface Fixture {
  pages?: PrunePage[];
  /** machines with output, and snapshots with files */
  ends?: string[];
  machines?: string[];
  files?: string[];
  limits?: Partial<Context["limits"]>;
  /** teams */
  deleted?: { id: string; deletedAt: number }[];
  /** ms between two reads of the clock */
  slowness?: number;
}

async function round(fixture: Fixture) {
  const { pages = [], ends = [], machines = [], files = [], limits = {}, deleted = [], slowness = 0 } = fixture;
  const steps: string[] = [];
  const queries: PruneQuery[] = [];
  const sizes: number[] = [];
  let clock = 0;
  const left = [...pages];
  // A round uses nothing else of them.
  const context = {
    store: {
      uncountedSessions: async () => ["sbx_uncounted"],
      addTotals: async (id: string) => void steps.push(`count ${id}`),
      listTeams: async (options?: object) => (options ? deleted : [{ id: "team" }]),
      listProjects: async () => [{ id: "project" }],
      sessionBehind: async (_: string, newer: number) => ({ at: newer, id: "x" }),
      async prunableSessions(query: PruneQuery) {
        queries.push(query);
        return left.shift() ?? { sessions: [] };
      },
      async pruneSessions(ids: string[]) {
        steps.push(...ids.map((id) => `prune ${id}`));
        sizes.push(ids.length);
        return ids.length;
      },
      compactCounts: async (id: string) => void steps.push(`compact ${id}`),
    },
    runtime: {
      snapshots: { list: async () => files.map((id) => ({ id })) },
      machine: (id: string) => (machines.includes(id) ? {} : undefined),
      end: (id: string) => (ends.includes(id) ? {} : undefined),
    },
    now: () => now,
    steady: () => (clock += slowness),
    limits: { sessionRetention: 90 * 24 * hour, sessionsKept: 100, ...limits },
  } as unknown as Context;
  const pruning = new Pruning(context, { forgetMachine: async (id) => void steps.push(`forget ${id}`) });
  const gone = await pruning.round();
  return { gone, steps: steps.slice(1), first: steps[0], queries, sizes };
}

const session = (id: string, createdAt = 1, runtimeSnapshots: string[] = []) => ({ id, createdAt, runtimeSnapshots });

test("output is deleted before the session's row, page after page", async () => {
  const pages = [{ sessions: [session("a"), session("b")], next: 7 }, { sessions: [session("c", 8)] }];
  const { gone, steps, first, queries } = await round({ pages, ends: ["a", "c"] });
  expect(first).toBe("count sbx_uncounted");
  expect(steps).toEqual(["forget a", "prune a", "prune b", "forget c", "prune c", "compact project"]);
  expect(gone).toBe(3);
  expect(queries[0]).toMatchObject({
    endedBefore: now - 90 * 24 * hour,
    upTo: { at: 100, id: "x" },
    settledBefore: now - hour,
    after: undefined,
  });
  expect(queries[1]?.after).toBe(7);
});

test("a session with a machine or files of a snapshot stays, with those before it in its millisecond", async () => {
  const sessions = [session("a", 1, ["gone"]), session("b", 2, ["there"]), session("c", 2), session("d", 3)];
  const { steps } = await round({ pages: [{ sessions }], files: ["there"], machines: ["d"] });
  expect(steps).toEqual(["prune a", "compact project"]);
});

test("with both rules off nothing is deleted, and each of the two can be switched off", async () => {
  const pages = [{ sessions: [session("a")] }];
  expect((await round({ pages, limits: { sessionRetention: 0, sessionsKept: 0 } })).gone).toBe(0);
  expect((await round({ limits: { sessionRetention: 0 } })).queries[0]?.endedBefore).toBeUndefined();
  expect((await round({ limits: { sessionsKept: 0 } })).queries[0]?.upTo).toBeUndefined();
});

test("of a deleted team every session goes that nothing needs, also with both rules off", async () => {
  const deleted = [{ id: "gone", deletedAt: 1 }];
  const limits = { sessionRetention: 0, sessionsKept: 0 };
  const { steps, queries } = await round({ pages: [{ sessions: [session("a")] }], deleted, limits });
  expect(steps).toEqual(["prune a", "compact project"]);
  expect(queries).toMatchObject([{ endedBefore: now, settledBefore: now - hour }]);
});

test("slow steps have fewer sessions, but not fewer than the store says", async () => {
  const sessions = Array.from({ length: 12 }, (_, i) => session(`s${i}`, i));
  const own = await round({ pages: [{ sessions }], slowness: 100 });
  expect(own.sizes.slice(-5)).toEqual([1, 1, 1, 1, 1]);
  const least = await round({ pages: [{ sessions, atLeast: 5 }], slowness: 100 });
  expect(least.sizes).toEqual([5, 5, 2]);
});
