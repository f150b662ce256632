/** Snapshots. A deleted one keeps its row: lists show it, and it keeps its place in the tree. */

import { sql } from "kysely";
import type { Snapshot } from "../../core/model/sandbox.ts";
import type { Store } from "../../core/ports/store.ts";
import { durable } from "../durable.ts";
import type { Database } from "../tables.ts";
import { byCreation, named, readByCreation } from "./lists/creation-list.ts";
import type { Position } from "./lists/cursor.ts";
import { readPage } from "./lists/page.ts";
import type { Runs } from "./lists/runs.ts";
import { all, first, mapping, type Row } from "./rows.ts";

type SnapshotStore = Pick<
  Store,
  | "insertSnapshot"
  | "getSnapshot"
  | "updateSnapshot"
  | "listSnapshots"
  | "countSnapshots"
  | "snapshotBytes"
  | "snapshotsOf"
  | "snapshotChildren"
  | "dueSnapshots"
  | "liveRuntimeSnapshots"
  | "isDeletedSnapshot"
  | "snapshotsOfRuntime"
  | "isCurrentSnapshot"
>;

const snapshots = mapping<Snapshot>({
  id: "text",
  name: "text",
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

// Worded like the indexes' conditions, so that the database can use the indexes.
const isThere = sql<boolean>`state <> 'deleted'`;
const hasCurrent = sql<boolean>`current_snapshot_id <> ''`;

export function snapshotStore(db: Database, runs: Runs): SnapshotStore {
  return {
    insertSnapshot: durable((snapshot) =>
      db.transaction().execute(async (tx) => {
        await tx.insertInto("snapshots").values(snapshots.toRow(snapshot)).execute();
        for (const query of runs.add("snapshots", snapshot)) await tx.executeQuery(query);
      }),
    ),

    getSnapshot: (id) => first(db.selectFrom("snapshots").selectAll().where("id", "=", id), snapshots.toValue),

    updateSnapshot: durable((id, changes) =>
      db.transaction().execute(async (tx) => {
        const row = await tx
          .updateTable("snapshots")
          // Sets the id to itself, because a statement must set something.
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
    ),

    listSnapshots(query) {
      const { projectId, sandboxName, sandboxId, name, after, before, there } = query;
      const list = { of: "snapshots", projectId, sandboxName, sandboxId, name, after, before, there };
      const more = [
        ...(there ? [isThere] : []),
        ...(sandboxId === undefined ? [] : [sql<boolean>`sandbox_id = ${sandboxId}`]),
        ...(name === undefined ? [] : [name === true ? sql<boolean>`name is not null` : sql<boolean>`name = ${name}`]),
      ];
      const wanted = named(snapshots.columns);
      const read = (position: Position | undefined, limit: number) =>
        readByCreation<Row<Snapshot>>(db, "snapshots", query, { wanted, position, limit, more });
      return readPage({ query, sort: byCreation, list, read }, snapshots.toValue);
    },

    async snapshotBytes({ teamId, keyId }) {
      // Ids have `_`, which stands for any character.
      const ofKey = keyId === undefined ? undefined : `%"keyId":"${keyId.replaceAll(/[%_!]/g, "!$&")}"%`;
      const { bytes } = await db
        .selectFrom("snapshots")
        .select((eb) => eb.fn.sum<number | string | null>("size_bytes").as("bytes"))
        .where(isThere)
        .where((eb) => eb.and(teamId === undefined ? [] : [eb("team_id", "=", teamId)]))
        .where((eb) =>
          eb.and(
            ofKey === undefined
              ? []
              : [
                  eb(
                    "sandbox_id",
                    "in",
                    eb.selectFrom("sandboxes").select("id").where(sql<boolean>`made_by like ${ofKey} escape '!'`),
                  ),
                ],
          ),
        )
        .executeTakeFirstOrThrow();
      return Number(bytes ?? 0);
    },

    countSnapshots: (query) => runs.count("snapshots", query),

    snapshotsOf: (sandboxId) =>
      all(
        db
          .selectFrom("snapshots")
          .selectAll()
          .where("sandbox_id", "=", sandboxId)
          .where(isThere)
          .orderBy("created_at", "desc")
          .orderBy("id", "desc"),
        snapshots.toValue,
      ),

    snapshotChildren: (parentId, limit) =>
      all(
        db
          .selectFrom("snapshots")
          .selectAll()
          .where("parent_id", "=", parentId)
          .orderBy("created_at")
          .orderBy("id")
          .limit(limit),
        snapshots.toValue,
      ),

    dueSnapshots: (now, limit) =>
      all(
        db
          .selectFrom("snapshots")
          .selectAll()
          .where(isThere)
          .where("expires_at", "<=", now)
          .orderBy("expires_at")
          .orderBy("id")
          .limit(limit),
        snapshots.toValue,
      ),

    async liveRuntimeSnapshots() {
      const rows = await db.selectFrom("snapshots").select("runtime_id").distinct().where(isThere).execute();
      return rows.map((row) => row.runtime_id);
    },

    snapshotsOfRuntime: (runtimeId) =>
      all(db.selectFrom("snapshots").selectAll().where("runtime_id", "=", runtimeId).where(isThere), snapshots.toValue),

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
