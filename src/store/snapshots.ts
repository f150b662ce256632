/** Snapshots. A deleted one stays as a tombstone: lists show it, and it keeps its place in the tree. */

import { sql } from "kysely";
import type { Snapshot } from "../core/sandbox.ts";
import type { Store } from "../core/store.ts";
import { behind, readPage } from "./page.ts";
import { mapping, type Row } from "./rows.ts";
import type { Database } from "./tables.ts";

type SnapshotStore = Pick<
  Store,
  | "insertSnapshot"
  | "getSnapshot"
  | "updateSnapshot"
  | "listSnapshots"
  | "snapshotsOf"
  | "snapshotChildren"
  | "dueSnapshots"
  | "liveRuntimeSnapshots"
  | "isDeletedSnapshot"
  | "isCurrentSnapshot"
>;

const snapshots = mapping<Snapshot>({
  id: "text",
  teamId: "text",
  projectId: "text",
  sandboxId: "text",
  sandboxName: "text",
  sessionId: "text",
  runtimeId: "text",
  parentId: "text",
  base: "json",
  region: "text",
  state: "text",
  method: "text",
  sizeBytes: "whole",
  createdAt: "whole",
  updatedAt: "whole",
  lastUsedAt: "whole",
  expiration: "whole",
  expiresAt: "whole",
});

// In the words of the indices' conditions, or those would not serve.
const isThere = sql<boolean>`state <> 'deleted'`;
const hasCurrent = sql<boolean>`current_snapshot_id <> ''`;

const byCreation = { column: "created_at", type: "number" } as const;

export function snapshotStore(db: Database): SnapshotStore {
  return {
    async insertSnapshot(snapshot) {
      await db.insertInto("snapshots").values(snapshots.toRow(snapshot)).execute();
    },

    async getSnapshot(id) {
      const row = await db.selectFrom("snapshots").selectAll().where("id", "=", id).executeTakeFirst();
      return row && snapshots.toValue(row);
    },

    updateSnapshot: (id, changes) =>
      db.transaction().execute(async (tx) => {
        const row = await tx
          .updateTable("snapshots")
          // The id for itself, because a statement that sets nothing is none.
          .set({ ...snapshots.toChanges(changes), id })
          .where("id", "=", id)
          .returningAll()
          .executeTakeFirst();
        if (row?.state === "deleted")
          await tx
            .updateTable("sandboxes")
            .set({ snapshot_gone: 1 })
            .where("current_snapshot_id", "=", id)
            .where("deleted_at", "is", null)
            .where(hasCurrent)
            .execute();
        return row && snapshots.toValue(row);
      }),

    listSnapshots(query) {
      const { projectId, sandboxName, order } = query;
      return readPage<Row<Snapshot>, Snapshot>(
        {
          query,
          sort: byCreation,
          list: { of: "snapshots", projectId, sandboxName },
          read: (position, limit) =>
            db
              .selectFrom("snapshots")
              .selectAll()
              .where("project_id", "=", projectId)
              .$if(sandboxName !== undefined, (rows) => rows.where("sandbox_name", "=", sandboxName ?? ""))
              .$call((rows) => (position ? rows.where(behind(position, order, "created_at", "id")) : rows))
              .orderBy("created_at", order)
              .orderBy("id", order)
              .limit(limit)
              .execute(),
        },
        snapshots.toValue,
      );
    },

    async snapshotsOf(sandboxId) {
      const rows = await db
        .selectFrom("snapshots")
        .selectAll()
        .where("sandbox_id", "=", sandboxId)
        .where(isThere)
        .orderBy("created_at", "desc")
        .orderBy("id", "desc")
        .execute();
      return rows.map(snapshots.toValue);
    },

    async snapshotChildren(parentId, limit) {
      const rows = await db
        .selectFrom("snapshots")
        .selectAll()
        .where("parent_id", "=", parentId)
        .orderBy("created_at")
        .orderBy("id")
        .limit(limit)
        .execute();
      return rows.map(snapshots.toValue);
    },

    async dueSnapshots(now, limit) {
      const rows = await db
        .selectFrom("snapshots")
        .selectAll()
        .where(isThere)
        .where("expires_at", "<=", now)
        .orderBy("expires_at")
        .orderBy("id")
        .limit(limit)
        .execute();
      return rows.map(snapshots.toValue);
    },

    async liveRuntimeSnapshots() {
      const rows = await db.selectFrom("snapshots").select("runtime_id").distinct().where(isThere).execute();
      return rows.map((row) => row.runtime_id);
    },

    async isDeletedSnapshot(runtimeId) {
      const row = await db
        .selectFrom("snapshots")
        .select("id")
        .where("runtime_id", "=", runtimeId)
        .where("state", "=", "deleted")
        .limit(1)
        .executeTakeFirst();
      return row !== undefined;
    },

    async isCurrentSnapshot(id) {
      const row = await db
        .selectFrom("sandboxes")
        .select("id")
        .where("current_snapshot_id", "=", id)
        .where("deleted_at", "is", null)
        .where(hasCurrent)
        .limit(1)
        .executeTakeFirst();
      return row !== undefined;
    },
  };
}
