/**
 * Many running sessions of one daemon: as many with a machine as the host holds, and the rest only as records, as if
 * their machines were gone. For the store and for the code that ends sessions both are the same.
 */

import { join } from "node:path";
import { sql } from "kysely";
import { defaultProject, defaultTeam } from "../src/core/access/access.ts";
import { openEngine } from "../src/store/engines/engines.ts";
import { openStore } from "../src/store/sql-store.ts";
import { sandboxOf } from "../test/conformance/store/host.ts";
import { raw } from "../test/e2e/clients.ts";
import type { TestDaemon } from "../test/harness/daemon.ts";
import { quantile } from "./measure.ts";

export interface Crowd {
  /** names of its sandboxes */
  names: string[];
  /** lets the time of all their sessions run out at once */
  end(): Promise<void>;
}

/** how many clients make and delete sandboxes */
const makers = 8;
const hour = 3_600_000;
const owner = { teamId: defaultTeam.id, projectId: defaultProject.id };

export async function makeCrowd(daemon: TestDaemon, live: number, all: number): Promise<Crowd> {
  const names = Array.from({ length: all }, (_, n) => `crowd-${n}`);
  await many(makers, names.slice(0, live), async (name) => {
    const answer = await raw(daemon, "POST", "/v3/sandboxes", { body: { name, timeout: hour } });
    if (answer.status !== 200) throw new Error(answer.text);
  });
  const path = join(daemon.dataDir, "sandkeep.db");
  const store = await openStore({ path });
  await many(makers, names.slice(live), async (name) => {
    const at = Date.now();
    const pair = sandboxOf(owner, { name, createdAt: at, updatedAt: at, stateChangedAt: at });
    await store.insertSandbox(pair.sandbox, pair.session);
    const changes = { startedAt: at, expiresAt: at + hour, updatedAt: at };
    await store.moveSession(pair.session.id, ["pending"], "running", changes);
  });
  await store.close();
  return {
    names,
    async end() {
      const { db, close } = openEngine({ path });
      await sql.raw("update sessions set expires_at = 1 where state = 'running'").execute(db);
      await close();
      // A session whose end changes makes the daemon check which session is next.
      const body = { name: "waker", timeout: hour };
      const { json } = await raw(daemon, "POST", "/v3/sandboxes", { body });
      await raw(daemon, "POST", `/v2/sandboxes/sessions/${json.session.id}/stop`);
    },
  };
}

export interface Meanwhile {
  /** seconds until the work was done */
  lasted: number;
  /** durations of the GETs meanwhile, in ms */
  waits: number[];
}

/** requests a sandbox repeatedly, one GET after the other, until the work is done */
export async function askedDuring(daemon: TestDaemon, name: string, work: () => Promise<unknown>): Promise<Meanwhile> {
  const headers = { authorization: `Bearer ${daemon.key}` };
  const begun = performance.now();
  let isOver = false;
  const over = work().finally(() => {
    isOver = true;
  });
  const waits: number[] = [];
  while (!isOver) {
    const asked = performance.now();
    await (await fetch(`${daemon.url}/v2/sandboxes/${name}`, { headers })).text();
    waits.push(performance.now() - asked);
  }
  await over;
  return { lasted: (performance.now() - begun) / 1000, waits };
}

export function inWords({ lasted, waits }: Meanwhile): string {
  const [p50, p99] = [0.5, 0.99].map((share) => quantile(waits, share).toFixed(1));
  const most = Math.max(...waits).toFixed(1);
  return `${lasted.toFixed(1)} s; ${waits.length} GETs meanwhile: p50 ${p50} ms, p99 ${p99} ms, longest ${most} ms`;
}

/** processes each item, with so many workers at once */
export async function many<T>(workers: number, items: T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const left = items.values();
  const worker = async () => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: workers }, worker));
}
