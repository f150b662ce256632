/**
 * The store with a million sandboxes and sessions in it, on both engines: pages of lists, filters by tags, and what a
 * create costs beside what it costs in an empty one.
 */

import { join } from "node:path";
import { sql } from "kysely";
import type { Owner } from "../src/core/sandbox.ts";
import type { SandboxQuery, Store } from "../src/core/store.ts";
import { openEngine } from "../src/store/engines.ts";
import { openStore, type StoreLocation } from "../src/store/sql-store.ts";
import { newOwner, noon, sandboxOf } from "../test/conformance/store/host.ts";
import { tempDir, type Undo } from "../test/harness.ts";
import { startPostgres } from "../test/postgres.ts";
import { interleaved, median, quantile, type Subject, table, verdict } from "./measure.ts";

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
  await fill(location, big.owner, rows);

  const { store, owner } = big;
  const newest = { ...owner, limit: 20, order: "desc", sortBy: "createdAt" } as const;
  const list = (name: string, query: (round: number) => Partial<SandboxQuery>) =>
    subject(name, (round) => store.listSandboxes({ ...newest, ...query(round) }));
  let cursor: string | undefined;
  const pages = [
    subject("20 sessions, page after page", async () => {
      const page = await store.listSessions({ ...owner, limit: 20, order: "desc", ...(cursor && { cursor }) });
      cursor = page.next;
    }),
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
  // What waits for the machine and not for the store is in this one too.
  const lookup = subject("one sandbox by its id", () => store.getSandbox("filled_0"));
  const read = await interleaved([lookup, ...pages], rounds);
  const written = await interleaved([create("an empty", small), create("the full", big)], rounds);
  const [before, after] = written.map(({ samples }) => median(samples));
  return [
    table(`${name}, ${rows.toLocaleString("en")} sandboxes and sessions`, [...read, ...written]),
    ...read.map((series) => verdict(`${series.name}, p99`, quantile(series.samples, 0.99), 5, "ms")),
    verdict(
      "create in the full store",
      (after ?? Number.NaN) / (before ?? Number.NaN),
      1.25,
      "x create in an empty one",
    ),
  ].join("\n");
}

interface Place {
  store: Store;
  owner: Owner;
}

function create(which: string, { store, owner }: Place): Subject {
  return subject(`create in ${which} store`, async () => {
    const { sandbox, session } = sandboxOf(owner, { tags: { env: "0", user: 1 }, createdAt: Date.now() });
    await store.insertSandbox(sandbox, session);
  });
}

function subject(name: string, use: (round: number) => Promise<unknown>): Subject {
  let round = 0;
  return {
    name,
    async run() {
      await use(round++);
      return undefined;
    },
  };
}

/** made by the engine itself from numbers, because a million creates would take half an hour */
async function fill(location: StoreLocation, { teamId, projectId }: Owner, rows: number): Promise<void> {
  const { db, close } = openEngine(location);
  // Steps of this size through this prime's remainders meet each once: ids as scattered as random ones.
  const scattered = "(i * 611953 % 1000003)";
  const state = "case when i % 100000 = 0 then 'running' else 'stopped' end";
  const tables: Record<string, Record<string, string>> = {
    sandboxes: {
      id: `'filled_' || ${scattered}`,
      team_id: `'${teamId}'`,
      project_id: `'${projectId}'`,
      name: `'name-' || ${scattered}`,
      persistent: "1",
      base: `'{"image":"host","cwd":"/vercel/sandbox","user":"vercel-sandbox"}'`,
      vcpus: "2",
      memory: "4096",
      timeout: "300000",
      network_policy: `'{"mode":"allow-all"}'`,
      env: `'{"SOME":"environment"}'`,
      tags: `'{"env":"' || i % 5 || '","user":' || i % 10000 || '}'`,
      routes: "'[]'",
      mounts: "'{}'",
      region: "'iad1'",
      failover_regions: "'[]'",
      current_snapshot_id: `'snap_' || ${scattered}`,
      snapshot_gone: "0",
      current_session_id: `'sbx_' || ${scattered}`,
      state,
      state_changed_at: `${noon} + i`,
      total_egress_bytes: "0",
      total_ingress_bytes: "0",
      total_cpu_ms: "0",
      total_duration_ms: "0",
      created_at: `${noon} + i`,
      updated_at: `${noon} + i`,
    },
    sessions: {
      id: `'sbx_' || ${scattered}`,
      short_id: `'short' || ${scattered}`,
      team_id: `'${teamId}'`,
      project_id: `'${projectId}'`,
      sandbox_id: `'filled_' || ${scattered}`,
      sandbox_name: `'name-' || ${scattered}`,
      state,
      vcpus: "2",
      memory: "4096",
      timeout: "300000",
      region: "'iad1'",
      cwd: "'/vercel/sandbox'",
      '"user"': "'vercel-sandbox'",
      env: `'{"SOME":"environment"}'`,
      persistent: "1",
      network_policy: `'{"mode":"allow-all"}'`,
      requested_at: `${noon} + i`,
      created_at: `${noon} + i`,
      updated_at: `${noon} + i`,
      expires_at: `${noon} + i`,
      counted: "1",
    },
  };
  const tag = (key: string, value: string) => ({
    project_id: `'${projectId}'`,
    key: `'"${key}"'`,
    value,
    created_at: `${noon} + i`,
    sandbox_id: `'filled_' || ${scattered}`,
  });
  const numbers = `with recursive numbers (i) as (select 0 union all select i + 1 from numbers where i + 1 < ${rows})`;
  const insert = async (name: string, columns: Record<string, string>) => {
    const values = Object.values(columns).join(", ");
    // PostgreSQL would take the numbers for integers of 32 bits, in which the product does not fit.
    const wide = "(select cast(i as bigint) as i from numbers) as wide";
    await sql.raw(`${numbers} insert into ${name} (${Object.keys(columns)}) select ${values} from ${wide}`).execute(db);
  };
  for (const [name, columns] of Object.entries(tables)) await insert(name, columns);
  await insert("sandbox_tags", tag("env", `'"' || i % 5 || '"'`));
  await insert("sandbox_tags", tag("user", "cast(i % 10000 as text)"));
  // PostgreSQL would do so by itself after a while, SQLite never does.
  if ("url" in location) await sql.raw("analyze").execute(db);
  await close();
}
