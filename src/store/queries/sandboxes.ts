/**
 * Sandboxes, with their routes and tags. A deleted one keeps its row, because its sessions and snapshots refer to it;
 * `deleted_at` removes it from every name, route and list.
 */

import { sql } from "kysely";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Route, Sandbox } from "../../core/model/sandbox.ts";
import type { Store } from "../../core/ports/store.ts";
import { durable } from "../durable.ts";
import type { Database, SandboxRow } from "../tables.ts";
import { all, first, mapping } from "./rows.ts";
import type { Runs } from "./runs.ts";
import { countSandboxes, listSandboxes } from "./sandbox-list.ts";
import { isOver } from "./session-states.ts";
import { changeSessionTags, checkTags } from "./session-tags.ts";
import { insertSessionRow } from "./sessions.ts";
import { deleteTags, writeTags } from "./tags.ts";

type SandboxStore = Pick<
  Store,
  | "insertSandbox"
  | "findSandbox"
  | "getSandbox"
  | "getSandboxes"
  | "findSandboxByRoute"
  | "updateSandbox"
  | "deleteSandbox"
  | "listSandboxes"
  | "countSandboxes"
  | "staleSandboxes"
>;

const sandboxes = mapping<Omit<Sandbox, "totals">>({
  id: "text",
  teamId: "text",
  projectId: "text",
  name: "text",
  persistent: "flag",
  base: "json",
  vcpus: "real",
  memory: "real",
  timeout: "whole",
  lifetime: "text",
  onTimeout: "text",
  networkPolicy: "json",
  networkId: "text",
  env: "json",
  tags: "json",
  routes: "json",
  ingress: "json",
  notes: "json",
  mounts: "json",
  region: "text",
  failoverRegions: "json",
  snapshotExpiration: "whole",
  snapshotName: "text",
  keepLastSnapshots: "json",
  currentSnapshotId: "key",
  currentSessionId: "text",
  state: "text",
  stateChangedAt: "whole",
  createdAt: "whole",
  updatedAt: "whole",
});

// Worded like the index's condition, so that the database can use the index.
const isStale = sql<boolean>`${isOver}
  and (current_snapshot_id = '' or snapshot_gone = 1)`;

export function sandboxStore(db: Database, runs: Runs): SandboxStore {
  return {
    async insertSandbox(sandbox, session) {
      checkTags(sandbox.tags);
      await db.transaction().execute(async (tx) => {
        const inserted = await tx
          .insertInto("sandboxes")
          .values(toRow(sandbox))
          .onConflict((conflict) =>
            conflict.columns(["project_id", "name"]).where("deleted_at", "is", null).doNothing(),
          )
          .returning("id")
          .executeTakeFirst();
        if (!inserted)
          throw new SandkeepError(
            "exists",
            `Cannot create the sandbox "${sandbox.name}": the project has one of that name`,
          );
        await writeTags(tx, sandbox, sandbox.tags);
        await writeRoutes(tx, sandbox.id, sandbox.routes);
        await insertSessionRow(tx, runs, session, sandbox.tags);
      });
    },

    findSandbox: (projectId, name) =>
      first(
        db
          .selectFrom("sandboxes")
          .selectAll()
          .where("project_id", "=", projectId)
          .where("name", "=", name)
          .where("deleted_at", "is", null),
        toSandbox,
      ),

    getSandbox: (id) => first(db.selectFrom("sandboxes").selectAll().where("id", "=", id), toSandbox),

    async getSandboxes(ids) {
      if (ids.length === 0) return [];
      const wanted = [...new Set(ids)];
      return all(db.selectFrom("sandboxes").selectAll().where("id", "in", wanted), toSandbox);
    },

    findSandboxByRoute: (subdomain) =>
      first(
        db
          .selectFrom("sandbox_routes")
          .innerJoin("sandboxes", "sandboxes.id", "sandbox_routes.sandbox_id")
          .selectAll("sandboxes")
          .where("subdomain", "=", subdomain),
        toSandbox,
      ),

    updateSandbox: durable(async (id, changes) => {
      if (changes.tags) checkTags(changes.tags);
      const columns = sandboxes.toChanges(changes);
      const snapshot = "currentSnapshotId" in changes ? { snapshot_gone: 0 } : {};
      return db.transaction().execute(async (tx) => {
        const tags = changes.tags && (await heldTags(tx, id));
        const row = await tx
          .updateTable("sandboxes")
          // Sets the id to itself, because a statement must set something.
          .set({ ...columns, ...snapshot, id })
          .where("id", "=", id)
          .where("deleted_at", "is", null)
          .returningAll()
          .executeTakeFirst();
        if (!row) return undefined;
        const sandbox = toSandbox(row);
        if (changes.tags) {
          await deleteTags(tx, id);
          await writeTags(tx, sandbox, changes.tags);
          await changeSessionTags(tx, id, tags ?? {}, changes.tags);
        }
        if (changes.routes) {
          await deleteRoutes(tx, id);
          await writeRoutes(tx, id, changes.routes);
        }
        return sandbox;
      });
    }),

    deleteSandbox: durable((id, at) =>
      db.transaction().execute(async (tx) => {
        const deleted = await tx
          .updateTable("sandboxes")
          .set({ deleted_at: at })
          .where("id", "=", id)
          .where("deleted_at", "is", null)
          .returning("id")
          .executeTakeFirst();
        if (!deleted) return false;
        await deleteTags(tx, id);
        await deleteRoutes(tx, id);
        return true;
      }),
    ),

    listSandboxes: (query) => listSandboxes(db, query, toSandbox),

    countSandboxes: (query) => countSandboxes(db, query),

    staleSandboxes: (before, limit) =>
      all(
        db
          .selectFrom("sandboxes")
          .selectAll()
          .where("deleted_at", "is", null)
          .where(isStale)
          .where("state_changed_at", "<", before)
          .orderBy("state_changed_at")
          .orderBy("id")
          .limit(limit),
        toSandbox,
      ),
  };
}

function toRow({ totals, ...sandbox }: Sandbox): SandboxRow {
  return {
    ...sandboxes.toRow(sandbox),
    total_egress_bytes: totals.egressBytes,
    total_ingress_bytes: totals.ingressBytes,
    total_cpu_ms: totals.cpuMs,
    total_duration_ms: totals.durationMs,
    snapshot_gone: 0,
    deleted_at: null,
  };
}

function toSandbox(row: SandboxRow): Sandbox {
  return {
    ...sandboxes.toValue(row),
    totals: {
      egressBytes: row.total_egress_bytes,
      ingressBytes: row.total_ingress_bytes,
      cpuMs: row.total_cpu_ms,
      durationMs: row.total_duration_ms,
    },
  };
}

/** its tags; locks the sandbox, so that until the transaction ends no one else changes it or adds a session */
function heldTags(tx: Database, id: string): Promise<Sandbox["tags"] | undefined> {
  const held = tx.updateTable("sandboxes").set({ id }).where("id", "=", id).where("deleted_at", "is", null);
  return first(held.returningAll(), (row) => toSandbox(row).tags);
}

async function writeRoutes(db: Database, sandboxId: string, routes: Route[]): Promise<void> {
  const rows = routes.map(({ subdomain }) => ({ subdomain, sandbox_id: sandboxId }));
  if (rows.length > 0) await db.insertInto("sandbox_routes").values(rows).execute();
}

async function deleteRoutes(db: Database, sandboxId: string): Promise<void> {
  await db.deleteFrom("sandbox_routes").where("sandbox_id", "=", sandboxId).execute();
}
