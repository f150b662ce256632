/**
 * Keeps the sessions and sandboxes that were read last by their id, because every request reads them. Only for a store
 * that no other program writes to.
 *
 * Any call that may change one of these rows drops all of them before it begins, and until it has ended none are kept. So
 * a kept row is always what the database holds.
 */

import { keepLast } from "../base/bounded-map.ts";
import type { Store } from "../core/ports/store.ts";

/** most rows of a kind that are kept */
const mostRows = 1000;

/** frequent calls that change neither a session nor a sandbox that exists; every other call counts as a change */
const harmless: ReadonlySet<string> = new Set<keyof Store>([
  "getSession",
  "getSandbox",
  "getSessions",
  "getSandboxes",
  "findSandbox",
  "findSandboxByRoute",
  "findSessionByShortId",
  "insertSandbox",
  "listSandboxes",
  "listSessions",
  "listSessionSummaries",
  "sessionRuns",
  "countSandboxes",
  "countSessions",
  "dueSessions",
  "nextExpiry",
  "insertCommand",
  "getCommand",
  "endCommand",
  "deleteCommand",
  "listCommands",
  "pageCommands",
  "openCommands",
  "getSnapshot",
  "snapshotsOf",
  "isCurrentSnapshot",
  "detachDrives",
  "beginIdempotent",
  "endIdempotent",
  "findKey",
  "touchKey",
  "findTeam",
  "findProject",
  "addAudit",
  "getWebhook",
  "listWebhooks",
  "addDeliveries",
  "updateDelivery",
  "waitingDeliveries",
  "pruneDeliveries",
  "listAudit",
]);

export function keepingRows(store: Store): Store {
  const kept = { sessions: new Map<string, unknown>(), sandboxes: new Map<string, unknown>() };
  let changes = 0;
  let underWay = 0;

  const reader =
    <T extends object>(rows: Map<string, unknown>, read: (id: string) => Promise<T | undefined>) =>
    async (id: string): Promise<T | undefined> => {
      const there = rows.get(id);
      // Each map has the rows of one reader.
      if (there !== undefined) return there as T;
      const before = changes;
      const row = await read(id);
      // A change since then may not be in this row.
      if (row && before === changes && underWay === 0) {
        rows.set(id, frozen(row));
        keepLast(rows, mostRows);
      }
      return row;
    };

  const changing =
    (change: (...args: unknown[]) => Promise<unknown>) =>
    async (...args: unknown[]): Promise<unknown> => {
      changes++;
      underWay++;
      kept.sessions.clear();
      kept.sandboxes.clear();
      try {
        return await change(...args);
      } finally {
        underWay--;
      }
    };

  const others = Object.entries(store).map(([name, method]) => [name, harmless.has(name) ? method : changing(method)]);
  return {
    ...(Object.fromEntries(others) as Store),
    getSession: reader(kept.sessions, store.getSession),
    getSandbox: reader(kept.sandboxes, store.getSandbox),
  };
}

/** a row that several callers get must not be changed by one of them */
function frozen<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  for (const member of Object.values(value)) frozen(member);
  return Object.freeze(value);
}
