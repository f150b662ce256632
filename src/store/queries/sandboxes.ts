/**
 * Sandboxes, with their routes and tags. A deleted one keeps its row, because its sessions and snapshots refer to it;
 * `deleted_at` removes it from every name, route and list.
 */

import { type CompiledQuery, sql } from "kysely";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Route, Sandbox } from "../../core/model/sandbox.ts";
import type { Store } from "../../core/ports/store.ts";
import { durable } from "../durable.ts";
import type { Engine } from "../engines/engines.ts";
import { statement, step } from "../engines/statements.ts";
import type { Database, SandboxRow } from "../tables.ts";
import type { Runs } from "./lists/runs.ts";
import { countSandboxes, listSandboxes } from "./lists/sandbox-list.ts";
import { changeSessionTags, checkTags } from "./lists/session-tags.ts";
import { tagInserts } from "./lists/tags.ts";
import { all, first, mapping } from "./rows.ts";
import { isOver } from "./session-states.ts";
import { sessionInsertion } from "./sessions.ts";

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
  madeBy: "json",
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

export function sandboxStore({ db, statements }: Pick<Engine, "db" | "statements">, runs: Runs): SandboxStore {
  const sessionInserts = sessionInsertion(db, runs);
  const insertion = statement((row: SandboxRow) =>
    db
      .insertInto("sandboxes")
      .values(row)
      .onConflict((conflict) => conflict.columns(["project_id", "name"]).where("deleted_at", "is", null).doNothing())
      .returning("id"),
  );
  const byId = statement(({ id }: { id: string }) => db.selectFrom("sandboxes").selectAll().where("id", "=", id));
  const byName = statement(({ projectId, name }: { projectId: string; name: string }) =>
    db
      .selectFrom("sandboxes")
      .selectAll()
      .where("project_id", "=", projectId)
      .where("name", "=", name)
      .where("deleted_at", "is", null),
  );
  const deletion = statement(({ id, at }: { id: string; at: number }) =>
    db
      .updateTable("sandboxes")
      .set({ deleted_at: at })
      .where("id", "=", id)
      .where("deleted_at", "is", null)
      .returning("id"),
  );
  const deleteTags = statement(({ id }: { id: string }) => db.deleteFrom("sandbox_tags").where("sandbox_id", "=", id));
  const deleteRoutes = statement(({ id }: { id: string }) =>
    db.deleteFrom("sandbox_routes").where("sandbox_id", "=", id),
  );

  return {
    async insertSandbox(sandbox, session) {
      checkTags(sandbox.tags);
      await statements.transaction(function* () {
        const [inserted] = yield* step(insertion(toRow(sandbox)));
        if (!inserted)
          throw new SandkeepError(
            "exists",
            `Cannot create the sandbox "${sandbox.name}": the project has one of that name`,
          );
        yield* tagInserts(db, sandbox, sandbox.tags);
        yield* routeInserts(db, sandbox.id, sandbox.routes);
        yield* sessionInserts(session, sandbox.tags);
      });
    },

    async findSandbox(projectId, name) {
      const row = await statements.first(byName({ projectId, name }));
      return row && toSandbox(row);
    },

    async getSandbox(id) {
      const row = await statements.first(byId({ id }));
      return row && toSandbox(row);
    },

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
        const run = async (queries: CompiledQuery[]) => {
          for (const query of queries) await tx.executeQuery(query);
        };
        if (changes.tags) {
          await run([deleteTags({ id }), ...tagInserts(db, sandbox, changes.tags)]);
          await changeSessionTags(tx, id, tags ?? {}, changes.tags);
        }
        if (changes.routes) await run([deleteRoutes({ id }), ...routeInserts(db, id, changes.routes)]);
        return sandbox;
      });
    }),

    deleteSandbox: durable((id, at) =>
      statements.transaction(function* () {
        const [deleted] = yield* step(deletion({ id, at }));
        if (!deleted) return false;
        yield deleteTags({ id });
        yield deleteRoutes({ id });
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

function routeInserts(db: Database, sandboxId: string, routes: Route[]): CompiledQuery[] {
  const rows = routes.map(({ subdomain }) => ({ subdomain, sandbox_id: sandboxId }));
  return rows.length > 0 ? [db.insertInto("sandbox_routes").values(rows).compile()] : [];
}
