/**
 * The rows of a large store: so many sandboxes, each with a session and tags, a millisecond apart. The engine itself
 * generates them from numbers, because a million creates would take half an hour.
 */

import { sql } from "kysely";
import type { Owner } from "../../src/core/model/sandbox.ts";
import { openEngine } from "../../src/store/engines/engines.ts";
import type { StoreLocation } from "../../src/store/sql-store.ts";
import { noon } from "../../test/conformance/store/host.ts";

export async function fillStore(location: StoreLocation, { teamId, projectId }: Owner, rows: number): Promise<void> {
  const { db, close } = openEngine(location);
  // This step visits each remainder of the prime once: ids as scattered as random ones.
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
      tags: `'{"env":"' || i % 5 || '","user":' || i % 10000 || ',"half":' || i % 2 || ',"place":{"rack":' || i % 10000 || '}}'`,
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
      // As if each name were given to fifty sandboxes, one after the other.
      sandbox_name: `'name-' || ${scattered} / 50`,
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
    key: `'${key}'`,
    value,
    created_at: `${noon} + i`,
  });
  const sandbox = { sandbox_id: `'filled_' || ${scattered}` };
  const session = { session_id: `'sbx_' || ${scattered}` };
  const numbers = `with recursive numbers (i) as (select 0 union all select i + 1 from numbers where i + 1 < ${rows})`;
  const insert = async (name: string, columns: Record<string, string>) => {
    const values = Object.values(columns).join(", ");
    // PostgreSQL would treat the numbers as integers of 32 bits, which are too small for the product.
    const wide = "(select cast(i as bigint) as i from numbers) as wide";
    await sql.raw(`${numbers} insert into ${name} (${Object.keys(columns)}) select ${values} from ${wide}`).execute(db);
  };
  for (const [name, columns] of Object.entries(tables)) await insert(name, columns);
  const env = `'"' || i % 5 || '"'`;
  const number = (most: number) => `cast(i % ${most} as text)`;
  await insert("sandbox_tags", { ...tag('"env"', env), ...sandbox });
  await insert("sandbox_tags", { ...tag('"user"', number(10_000)), ...sandbox });
  await insert("session_tags", { ...tag('["env"]', env), ...session });
  await insert("session_tags", { ...tag('["user"]', number(10_000)), ...session });
  await insert("session_tags", { ...tag('["half"]', number(2)), ...session });
  await insert("session_tags", { ...tag('["place"]', "'{}'"), ...session });
  await insert("session_tags", { ...tag('["place","rack"]', number(10_000)), ...session });
  // PostgreSQL would do this by itself after a while, in the middle of the measurement; SQLite never does.
  if ("url" in location) for (const what of ["vacuum analyze", "checkpoint"]) await sql.raw(what).execute(db);
  await close();
}
