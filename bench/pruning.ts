/**
 * Old sessions are deleted while lists are read: nine tenths of a million sessions, with their tags and sandboxes, on
 * both engines. Compares the duration of lists meanwhile and before. A list is due every few milliseconds, and its time
 * counts from then on, so that it includes the time for which a step of the deletion blocks the thread.
 */

import { loadavg } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";
import { sql } from "kysely";
import type { Context } from "../src/core/context.ts";
import type { Owner } from "../src/core/model/sandbox.ts";
import type { Store } from "../src/core/ports/store.ts";
import { Pruning } from "../src/core/sessions/pruning.ts";
import { openEngine } from "../src/store/engines/engines.ts";
import { openStore, type StoreLocation } from "../src/store/sql-store.ts";
import { newOwner, noon } from "../test/conformance/store/host.ts";
import { tempDir, type Undo } from "../test/harness/harness.ts";
import { startPostgres } from "../test/harness/postgres.ts";
import { quantile, type Subject, verdict } from "./measure.ts";
import { fillStore } from "./store/rows.ts";
import { type Goal, sessionSubjects } from "./store/sessions.ts";

const rounds = 100;
/** ms from one list to the next */
const every = 5;
const retention = 90 * 24 * 3_600_000;

export async function benchPruningSqlite(undo: Undo, rows: number): Promise<string> {
  return benchEngine("SQLite", { path: join(await tempDir(undo), "sandkeep.db") }, rows);
}

export async function benchPruningPostgres(undo: Undo, rows: number): Promise<string> {
  const server = await startPostgres(undo, { durable: true });
  return benchEngine("PostgreSQL", { url: await server.freshDatabase() }, rows);
}

async function benchEngine(name: string, location: StoreLocation, rows: number): Promise<string> {
  await using undo = new AsyncDisposableStack();
  const store = await openStore(location);
  undo.defer(() => store.close());
  const owner = await newOwner(store);
  await fillStore(location, owner, rows);
  const old = noon + rows * 0.9;
  await deleteSandboxes(location, owner, old);
  const goals = sessionSubjects({ store, owner }, rows);
  const subjects = goals.map(({ subject }) => subject);
  await paced(subjects, (round) => round < 10);
  const before = await paced(subjects, (round) => round < rounds);

  const pruning = pruningAt(store, old + retention);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const began = performance.now();
  const state = { isDone: false };
  const round = pruning.round().finally(() => {
    state.isDone = true;
  });
  // Ctrl-C ends the deletion, and what was measured until then is printed.
  process.once("SIGINT", () => void pruning.close());
  const during = await paced(subjects, () => !state.isDone);
  const gone = await round;
  const took = performance.now() - began;
  delay.disable();
  const left = await store.countSessions(owner);
  const all = await store.listSessions({ ...owner, order: "asc", limit: rows });
  return [
    `${name}: ${gone} of ${rows} sessions went in ${(took / 1000).toFixed(0)} s; ${left} are left, ${all.items.length} listed; load ${loadavg()[0]?.toFixed(1)}`,
    `  the event loop was held for p99 ${ms(delay.percentile(99) / 1e6)}, at most ${ms(delay.max / 1e6)}`,
    ...goals.map((goal) => lineOf(goal, before, during)),
  ].join("\n");
}

/** durations from the moment at which each list was due, in ms, by name */
type Times = Map<string, number[]>;

async function paced(subjects: Subject[], goesOn: (round: number) => boolean): Promise<Times> {
  const times: Times = new Map(subjects.map(({ name }) => [name, []]));
  let due = performance.now();
  for (let round = 0; goesOn(round); round++)
    for (const { name, run } of subjects) {
      // A late reader catches up with at most one list.
      due = Math.max(due + every, performance.now() - every);
      // A timer may be a millisecond late: the rest of the wait is a loop over the event loop's turns.
      const early = due - performance.now();
      if (early > 2) await pause(early - 2);
      do await nextTurn();
      while (performance.now() < due);
      await run();
      times.get(name)?.push(performance.now() - due);
    }
  return times;
}

/** p99 before and during the deletion, and the goal */
function lineOf({ subject, goal }: Goal, before: Times, during: Times): string {
  const p99 = (times: Times) => quantile(times.get(subject.name) ?? [], 0.99);
  return verdict(`${subject.name}, p99 (before ${ms(p99(before))})`, p99(during), goal, "ms");
}

/** marks the oldest sandboxes as deleted long ago */
async function deleteSandboxes(location: StoreLocation, { projectId }: Owner, before: number): Promise<void> {
  const { db, close } = openEngine(location);
  const old = sql`project_id = ${projectId} and created_at < ${before}`;
  await sql`update sandboxes set deleted_at = created_at where ${old}`.execute(db);
  await sql`delete from sandbox_tags where ${old}`.execute(db);
  if ("url" in location) for (const what of ["vacuum analyze", "checkpoint"]) await sql.raw(what).execute(db);
  await close();
}

function pruningAt(store: Store, now: number): Pruning {
  // Only the parts that a round uses: none of the sessions has left a machine or files.
  const context = {
    store,
    runtime: { snapshots: { list: async () => [] }, machine: () => undefined, end: () => undefined },
    now: () => now,
    steady: () => performance.now(),
    limits: { sessionRetention: retention, sessionsKept: 0 },
  } as unknown as Context;
  return new Pruning(context, { forgetMachine: async () => undefined });
}

function ms(value: number): string {
  return `${value.toFixed(2)} ms`;
}
