/** The store in SQL: what the core wants remembered, in SQLite or PostgreSQL. */

import { isSandkeepError, messageOf, SandkeepError } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { commandStore } from "./commands.ts";
import { driveStore } from "./drives.ts";
import { openEngine, type StoreLocation } from "./engines.ts";
import { idempotencyStore } from "./idempotency.ts";
import { migrate } from "./migrations.ts";
import { sandboxStore } from "./sandboxes.ts";
import { sessionStore } from "./sessions.ts";
import { snapshotStore } from "./snapshots.ts";
import { teamStore } from "./teams.ts";

export type { StoreLocation };

/** a store that is open and has the schema of this program */
export async function openStore(location: StoreLocation, now: () => number = Date.now): Promise<Store> {
  const engine = openEngine(location);
  const { db } = engine;
  const store: Store = {
    open: () => migrate(engine, now),
    close: () => db.destroy(),
    ...teamStore(db),
    ...sandboxStore(db),
    ...sessionStore(db, now),
    ...commandStore(db, now),
    ...snapshotStore(db),
    ...driveStore(db),
    ...idempotencyStore(db),
  };
  try {
    await store.open();
  } catch (error) {
    await store.close();
    if (isSandkeepError(error)) throw error;
    throw new SandkeepError("unsupported", `Cannot open the store ${placeOf(location)}: ${messageOf(error)}`, {
      cause: error,
    });
  }
  return store;
}

/** without what is secret in a URL */
function placeOf(location: StoreLocation): string {
  if ("path" in location) return `"${location.path}"`;
  const url = URL.parse(location.url);
  return url ? `"${url.protocol}//${url.host}${url.pathname}"` : "of PostgreSQL";
}
