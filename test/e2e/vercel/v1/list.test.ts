/**
 * Lists of version 1: pages that are named by timestamps, walked by the vendor's SDKs over rows of which many share a
 * millisecond, and answers that match the vendor's documents.
 */

import { join } from "node:path";
import * as sdk1 from "vercel-sandbox-1";
import * as sdk10 from "vercel-sandbox-1-0";
import { beforeAll, describe, expect, test } from "vitest";
import { openStore } from "../../../../src/store/sql-store.ts";
import { sandboxOf, snapshotOf } from "../../../conformance/store/host.ts";
import { daemonOfFile } from "../../../harness/daemon.ts";
import { violations } from "../../../schemas/schema.ts";
import { sandboxList } from "../../../schemas/vercel.ts";
import { credentials, raw, team } from "../../clients.ts";
import { redirectThisProcess } from "../../redirected-process.ts";

const daemon = daemonOfFile();
const owner = { teamId: team, projectId: "prj_listed" };
const start = Date.now() - 86_400_000;
/** how many were made in each millisecond from `start` on */
const perMillisecond = [1, 1, 40, 0, 0, 3, 1, 1, 1, 13, 0, 1];
const count = perMillisecond.reduce((sum, each) => sum + each);
const states = ["stopped", "aborted", "failed"] as const;
/** in the order of a list */
let sandboxes: string[] = [];
let snapshots: string[] = [];

beforeAll(async () => {
  await redirectThisProcess(daemon());
  const store = await openStore({ path: join(daemon().dataDir, "sandkeep.db") });
  await store.insertProject({
    ...{ id: owner.projectId, uuid: crypto.randomUUID(), teamId: team, name: "listed", createdAt: start },
  });
  const moments = perMillisecond.flatMap((many, ms) => Array.from({ length: many }, () => start + ms));
  const made = moments.map((createdAt, n) => {
    const pair = sandboxOf(owner, { createdAt, state: states[n % states.length] ?? "stopped" });
    return { ...pair, snapshot: snapshotOf(pair, { createdAt }) };
  });
  for (const { sandbox, session, snapshot } of made) {
    await store.insertSandbox(sandbox, session);
    await store.insertSnapshot(snapshot);
  }
  await store.close();
  sandboxes = newestFirst(made.map(({ session }) => session));
  snapshots = newestFirst(made.map(({ snapshot }) => snapshot));
});

interface Page {
  ids: string[];
  pagination: { count: number; next: number | null; prev: number | null };
}

interface Range {
  limit?: number;
  since?: number | Date;
  until?: number | Date;
}

const auth = () => ({ ...credentials(daemon()), projectId: "listed" });
const lists: Record<string, { list(range: Range): Promise<Page>; expected(): string[] }> = {
  "sandboxes, by SDK 1.10.2": {
    async list(range) {
      const { json } = await sdk1.Sandbox.list({ ...auth(), ...range });
      return { ids: json.sandboxes.map(({ id }) => id), pagination: json.pagination };
    },
    expected: () => sandboxes,
  },
  "sandboxes, by SDK 1.0.2": {
    async list(range) {
      const { json } = await sdk10.Sandbox.list({ ...auth(), ...range });
      return { ids: json.sandboxes.map(({ id }) => id), pagination: json.pagination };
    },
    expected: () => sandboxes,
  },
  "snapshots, by SDK 1.10.2": {
    async list(range) {
      const { json } = await sdk1.Snapshot.list({ ...auth(), ...range });
      return { ids: json.snapshots.map(({ id }) => id), pagination: json.pagination };
    },
    expected: () => snapshots,
  },
};

describe.each(Object.entries(lists))("a list of %s", (_, { list, expected }) => {
  test.each([1, 7, 20, 100])("by %i is walked forwards and backwards, each row once", async (limit) => {
    const there = [await list({ limit })];
    for (let next = there[0]?.pagination.next; next; next = there.at(-1)?.pagination.next) {
      there.push(await list({ limit, until: next }));
    }
    expect(there.flatMap(({ ids }) => ids)).toEqual(expected());
    expect(there.map(({ ids }) => ids.length)).toEqual(there.map(({ pagination }) => pagination.count));
    expect(there.slice(0, -1).every(({ ids }) => ids.length === limit)).toBe(true);
    expect(there[0]?.pagination.prev).toBeNull();

    const back = there.slice(-1);
    for (let prev = back[0]?.pagination.prev; prev; prev = back.at(-1)?.pagination.prev) {
      back.push(await list({ limit, since: prev }));
    }
    expect(back.toReversed().flatMap(({ ids }) => ids)).toEqual(expected());
    expect(back.every(({ ids }) => ids.length <= limit)).toBe(true);
  });

  test("is filtered by times, as numbers or dates", async () => {
    const newer = expected().slice(0, count - 42);
    expect((await list({ limit: 100, since: start + 2 })).ids).toEqual(newer);
    expect((await list({ limit: 100, since: new Date(start + 2) })).ids).toEqual(newer);
    expect((await list({ limit: 100, until: start + 2 })).ids).toEqual(expected().slice(-2));
    expect((await list({ limit: 100, since: start + 1, until: start + 3 })).ids).toHaveLength(40);
    expect((await list({ limit: 100, since: start + 100 })).ids).toEqual([]);
    expect((await list({})).ids).toEqual(expected().slice(0, 20));
  });
});

test("the total of the requested rows is exact on every page", async () => {
  const page = async (query: string) =>
    (await raw(daemon(), "GET", `/v1/sandboxes?project=listed&limit=10${query}`)).json.pagination;
  const first = await page("");
  expect(first).toEqual({ count: 10, next: expect.any(Number), prev: null, total: count });
  const second = await page(`&until=${first.next}`);
  expect(second.total).toBe(count);
  expect((await page(`&since=${second.prev}`)).total).toBe(count);
  expect((await page(`&since=${start + 2}`)).total).toBe(count - 42);
  const filtered = await page(`&since=${start + 1}`);
  expect((await page(`&since=${start + 1}&until=${filtered.next}`)).total).toBe(count - 2);
  expect((await page(`&since=${start + 1}&until=${start + 3}`)).total).toBe(40);
  expect((await page(`&until=${start}`)).total).toBe(0);
});

test("answers match the vendor's document", async () => {
  const made = await raw(daemon(), "POST", "/v1/sandboxes", {
    body: { networkPolicy: { mode: "custom", allowedDomains: ["a.test"] } },
  });
  const own = `/v1/sandboxes/${made.json.sandbox.id}`;
  const running = await raw(daemon(), "GET", "/v1/sandboxes");
  await raw(daemon(), "POST", `${own}/snapshot`);
  const seeded = await raw(daemon(), "GET", "/v1/sandboxes?project=listed&limit=50");
  const answers = [running, await raw(daemon(), "GET", "/v1/sandboxes?limit=1"), seeded];
  for (const { json } of answers) expect(violations(sandboxList, json)).toEqual([]);
  expect(answers.map(({ json }) => json.sandboxes[0].status)).toEqual(["running", "stopped", expect.any(String)]);
  expect(answers[1]?.json.sandboxes[0]).toMatchObject({
    duration: expect.any(Number),
    snapshottedAt: expect.any(Number),
    activeCpuDurationMs: expect.any(Number),
    networkTransfer: { ingress: expect.any(Number), egress: expect.any(Number) },
  });
  // The schema refuses wrong values.
  const { json } = running;
  const wrongStatus = { ...json, sandboxes: [{ ...json.sandboxes[0], status: "killed" }] };
  expect(violations(sandboxList, wrongStatus)).toEqual([
    "/sandboxes/0/status must be equal to one of the allowed values",
  ]);
  const wrongNext = { ...json, pagination: { ...json.pagination, next: "1" } };
  expect(violations(sandboxList, wrongNext)).toContain("/pagination/next must be number");
});

test.each([
  ["project=nobody", 404, "not_found"],
  ["project=listed&teamId=team_other", 403, "forbidden"],
  ["limit=1001", 400, "bad_request"],
  ["since=yesterday", 400, "bad_request"],
  ["filter=running", 400, "bad_request"],
])("a list with %s is refused", async (query, status, code) => {
  for (const path of ["/v1/sandboxes", "/api/v1/sandboxes", "/v1/sandboxes/snapshots"]) {
    const answer = await raw(daemon(), "GET", `${path}?${query}`);
    expect([answer.status, answer.json.error.code]).toEqual([status, code]);
    expect(answer.json.error.message).toMatch(/\w+ \w+/);
  }
});

function newestFirst(rows: { createdAt: number; id: string }[]): string[] {
  return rows.toSorted((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1)).map(({ id }) => id);
}
