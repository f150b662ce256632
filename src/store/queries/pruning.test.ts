/** What looking for old sessions costs PostgreSQL, however many sandboxes there are. */

import { sql } from "kysely";
import { expect, test } from "vitest";
import { fillStore } from "../../../bench/store/rows.ts";
import { newOwner, noon } from "../../../test/conformance/store/host.ts";
import { eventually } from "../../../test/harness/harness.ts";
import { startPostgres } from "../../../test/harness/postgres.ts";
import { openEngine } from "../engines/engines.ts";
import { openStore } from "../sql-store.ts";

const rows = 5000;

test("a page of old sessions is found without reading a whole table", async () => {
  await using undo = new AsyncDisposableStack();
  const location = { url: await (await startPostgres(undo)).freshDatabase() };
  const first = await openStore(location);
  const owner = await newOwner(first);
  await fillStore(location, owner, rows);
  await first.close();
  const { db, close } = openEngine(location);
  undo.defer(close);
  const scans = async (table: string) => {
    const found = await sql<{ whole: number; indexed: number }>`
      select seq_scan as whole, idx_scan as indexed from pg_stat_user_tables where relname = ${table}`.execute(db);
    return found.rows[0] ?? { whole: 0, indexed: 0 };
  };
  // A connection that has ended has reported what it did, such as the scans of the migrations.
  const allEnded = async () => {
    const others = await sql`
      select 1 from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`.execute(db);
    return others.rows.length === 0;
  };
  await eventually("the connections so far have ended", allEnded);
  await eventually("the inserts are counted", async () => (await scans("sandboxes")).indexed >= rows);
  const [sandboxes, sessions] = [await scans("sandboxes"), await scans("sessions")];

  const settledBefore = noon + 2 * rows;
  const store = await openStore(location);
  const page = await store.prunableSessions({ ...owner, endedBefore: noon + rows, settledBefore, limit: 50 });
  expect(page.next).toBe(noon + 48);
  await store.close();
  await eventually("the page's connections have ended", allEnded);
  await eventually("the page is counted", async () => (await scans("sessions")).indexed > sessions.indexed);
  expect((await scans("sandboxes")).whole).toBe(sandboxes.whole);
});
