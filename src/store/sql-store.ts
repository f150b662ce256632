/** The store in SQL: what the core wants remembered, in SQLite or PostgreSQL. */

import { isSandkeepError, messageOf, SandkeepError } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { commandStore } from "./commands.ts";
import { driveStore } from "./drives.ts";
import { type Engine, openEngine, type StoreLocation } from "./engines.ts";
import { idempotencyStore } from "./idempotency.ts";
import { identityStore } from "./identity.ts";
import { migrate } from "./migrations.ts";
import { runsOf } from "./runs.ts";
import { sandboxStore } from "./sandboxes.ts";
import { sessionStore } from "./sessions.ts";
import { snapshotStore } from "./snapshots.ts";
import { teamStore } from "./teams.ts";

export type { StoreLocation };

/** a store that is open and has the schema of this program */
export async function openStore(location: StoreLocation, now: () => number = Date.now): Promise<Store> {
  const engine = openEngine(location);
  const { db } = engine;
  const runs = runsOf(engine);
  const store: Store = onDisk(engine, {
    open: () => migrate(engine, now),
    close: () => engine.close(),
    claim: () => engine.claim(),
    ...identityStore(db),
    ...teamStore(db),
    ...sandboxStore(db, runs),
    ...sessionStore(engine, runs, now),
    ...commandStore(db, now),
    ...snapshotStore(db, runs),
    ...driveStore(db),
    ...idempotencyStore(db),
  });
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

/** what is acknowledged by these is on the disk before; the other changes follow with the next of these */
const acknowledged = [
  "setIdentity",
  "insertTeam",
  "insertProject",
  "insertKey",
  "renameKey",
  "deleteKey",
  "updateSandbox",
  "deleteSandbox",
  "moveSession",
  "updateSession",
  "insertSnapshot",
  "updateSnapshot",
  "insertDrive",
  "updateDrive",
  "deleteDrive",
  "endIdempotent",
] as const satisfies (keyof Store)[];

function onDisk({ flushed }: Engine, store: Store): Store {
  if (!flushed) return store;
  const durable = acknowledged.map((name) => {
    const change = store[name] as (...args: unknown[]) => Promise<unknown>;
    const changeAndFlush = async (...args: unknown[]) => {
      const result = await change(...args);
      await flushed();
      return result;
    };
    return [name, changeAndFlush];
  });
  return { ...store, ...Object.fromEntries(durable) };
}

/** without what is secret in a URL */
export function placeOf(location: StoreLocation): string {
  if ("path" in location) return `"${location.path}"`;
  const url = URL.parse(location.url);
  return url ? `"${url.protocol}//${url.host}${url.pathname}"` : "of PostgreSQL";
}
