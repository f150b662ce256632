/** The store of the core in SQL, on SQLite or PostgreSQL. */

import { isSandkeepError, messageOf, SandkeepError } from "../core/model/errors.ts";
import type { Store } from "../core/ports/store.ts";
import { flushing } from "./durable.ts";
import { openEngine, type StoreLocation } from "./engines/engines.ts";
import { translated } from "./engines/faults.ts";
import { identityStore } from "./identity.ts";
import { keepingRows } from "./kept-rows.ts";
import { migrate } from "./migrations/migrations.ts";
import { auditStore } from "./queries/audit.ts";
import { commandStore } from "./queries/commands.ts";
import { driveStore } from "./queries/drives.ts";
import { idempotencyStore } from "./queries/idempotency.ts";
import { runsOf } from "./queries/lists/runs.ts";
import { pruningStore } from "./queries/pruning.ts";
import { sandboxStore } from "./queries/sandboxes.ts";
import { secretStore } from "./queries/secrets.ts";
import { sessionStore } from "./queries/sessions.ts";
import { snapshotStore } from "./queries/snapshots.ts";
import { teamStore } from "./queries/teams.ts";
import { templateStore } from "./queries/templates.ts";
import { webhookStore } from "./queries/webhooks.ts";

export type { StoreLocation };

export interface StoreOptions {
  now?: () => number;
  /** seals secrets that an earlier version kept in the clear */
  seal?: (text: string) => string;
  /** takes the database for this program before anything is written; called when another program has taken it over */
  exclusive?: (error: SandkeepError) => void;
  /** called with a sentence when a database that was taken has not answered for a while, and when it answers again */
  warn?: (sentence: string) => void;
  /** rows that are counted together, see runs.ts; tests use fewer than the default */
  runLength?: number;
}

/** a store that is open and has the schema of this program */
export async function openStore(location: StoreLocation, options: StoreOptions = {}): Promise<Store> {
  const { now = Date.now, exclusive, warn } = options;
  const engine = openEngine(location, { lost: exclusive, warn });
  const { db } = engine;
  const runs = runsOf(engine, options.runLength);
  const sql: Store = {
    async open() {
      if (exclusive && !(await engine.claim())) {
        throw new SandkeepError("conflict", `Cannot serve: another daemon uses the database ${placeOf(location)}`);
      }
      await migrate(engine, options.seal);
      if (exclusive) await engine.begin?.();
    },
    close: () => engine.close(),
    claim: () => engine.claim(),
    ...identityStore(db),
    ...teamStore(db),
    ...sandboxStore(engine, runs),
    ...sessionStore(engine, runs, now),
    ...commandStore(engine, now),
    ...pruningStore(engine, runs),
    ...snapshotStore(db, runs),
    ...driveStore(engine),
    ...templateStore(db),
    ...secretStore(db),
    ...auditStore(engine),
    ...webhookStore(db),
    ...idempotencyStore(engine),
  };
  const flushed = engine.flushed ? flushing(sql, engine.flushed) : sql;
  const patient = engine.patient?.(flushed) ?? flushed;
  const store = exclusive ? keepingRows(patient) : patient;
  try {
    await store.open();
  } catch (error) {
    await store.close();
    const why = translated(error);
    if (isSandkeepError(why) && why.code !== "unavailable") throw why;
    const code = isSandkeepError(why) ? why.code : "unsupported";
    throw new SandkeepError(code, `Cannot open the store ${placeOf(location)}: ${messageOf(why)}`, {
      cause: error,
    });
  }
  return store;
}

/** leaves out the secrets of a URL */
export function placeOf(location: StoreLocation): string {
  if ("path" in location) return `"${location.path}"`;
  const url = URL.parse(location.url);
  return url ? `"${url.protocol}//${url.host}${url.pathname}"` : "of PostgreSQL";
}
