/**
 * A store with a million sandboxes and sessions, on both engines: pages of lists, filters by tags, and the cost of a
 * create beside that in an empty store.
 */

import { join } from "node:path";
import type { SandboxQuery } from "../src/core/ports/store.ts";
import { openStore, type StoreLocation } from "../src/store/sql-store.ts";
import { newOwner, noon, sandboxOf } from "../test/conformance/store/host.ts";
import { tempDir, type Undo } from "../test/harness/harness.ts";
import { startPostgres } from "../test/harness/postgres.ts";
import { interleaved, median, quantile, type Subject, table, verdict } from "./measure.ts";
import { fillStore } from "./store/rows.ts";
import { type Place, sessionSubjects, subject } from "./store/sessions.ts";

const rounds = 300;

export async function benchStore(undo: Undo, rows: number): Promise<string> {
  const directory = await tempDir(undo);
  const server = await startPostgres(undo, { durable: true });
  const engines: Record<string, () => Promise<StoreLocation>> = {
    SQLite: async () => ({ path: join(directory, `${crypto.randomUUID()}.db`) }),
    PostgreSQL: async () => ({ url: await server.freshDatabase() }),
  };
  const reports: string[] = [];
  for (const [name, place] of Object.entries(engines)) reports.push(await benchEngine(name, place, rows));
  return reports.join("\n\n");
}

async function benchEngine(name: string, place: () => Promise<StoreLocation>, rows: number): Promise<string> {
  await using undo = new AsyncDisposableStack();
  const open = async (location: StoreLocation) => {
    const store = await openStore(location);
    undo.defer(() => store.close());
    return { store, owner: await newOwner(store) };
  };
  const small = await open(await place());
  const location = await place();
  const big = await open(location);
  await fillStore(location, big.owner, rows);

  const { store, owner } = big;
  const newest = { ...owner, limit: 20, order: "desc", sortBy: "createdAt" } as const;
  const list = (name: string, query: (round: number) => Partial<SandboxQuery>) =>
    subject(name, (round) => store.listSandboxes({ ...newest, ...query(round) }));
  const pages = [
    list("20 sandboxes, newest first", () => ({})),
    list("20 sandboxes, by name prefix", (i) => ({ sortBy: "name", namePrefix: `name-${i}` })),
    list("20 sandboxes, in 2 rare states", () => ({ states: ["running", "snapshotting"] })),
    list("20 with a tag that 1 in 10,000 has", (i) => ({ tags: { user: i } })),
    list("20 with a tag that 1 in 5 has", () => ({ tags: { env: "0" } })),
    list("20 with both tags", (i) => ({ tags: { user: i, env: `${i % 5}` } })),
    list("20 with the rare tag, by name", (i) => ({ tags: { user: i }, sortBy: "name" })),
    list("20 with the common tag, by name", () => ({ tags: { env: "0" }, sortBy: "name" })),
    subject("what expires next, and is due", async () => {
      await store.nextExpiry();
      await store.dueSessions(noon + 1, 100);
    }),
  ];
  // This one includes the waits for the machine rather than the store.
  const lookup = subject("one sandbox by its id", () => store.getSandbox("filled_0"));
  const sessions = sessionSubjects(big, rows);
  const read = await interleaved([lookup, ...pages, ...sessions.map(({ subject }) => subject)], rounds);
  const goals = new Map(sessions.map(({ subject, goal }) => [subject.name, goal]));
  const written = await interleaved([create("an empty", small), create("the full", big)], rounds);
  const [before, after] = written.map(({ samples }) => median(samples));
  return [
    table(`${name}, ${rows.toLocaleString("en")} sandboxes and sessions`, [...read, ...written]),
    ...read.map(({ name, samples }) => verdict(`${name}, p99`, quantile(samples, 0.99), goals.get(name) ?? 5, "ms")),
    verdict(
      "create in the full store",
      (after ?? Number.NaN) / (before ?? Number.NaN),
      1.25,
      "x create in an empty one",
    ),
  ].join("\n");
}

function create(which: string, { store, owner }: Place): Subject {
  return subject(`create in ${which} store`, async () => {
    const { sandbox, session } = sandboxOf(owner, { tags: { env: "0", user: 1 }, createdAt: Date.now() });
    await store.insertSandbox(sandbox, session);
  });
}
