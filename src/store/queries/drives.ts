/** Drives, and which session may write to each. */

import { SandkeepError } from "../../core/model/errors.ts";
import type { Drive } from "../../core/model/sandbox.ts";
import type { DriveQuery, Store } from "../../core/ports/store.ts";
import { durable } from "../durable.ts";
import type { Engine } from "../engines/engines.ts";
import { statement } from "../engines/statements.ts";
import { behind, readPage, type Sort, startingWith } from "./lists/page.ts";
import { first, mapping, type Row } from "./rows.ts";

type DriveStore = Pick<
  Store,
  | "insertDrive"
  | "findDrive"
  | "getDrive"
  | "updateDrive"
  | "attachDrive"
  | "detachDrives"
  | "deleteDrive"
  | "listDrives"
>;

const drives = mapping<Drive>({
  id: "text",
  teamId: "text",
  projectId: "text",
  name: "text",
  region: "text",
  maxSizeBytes: "whole",
  parentId: "text",
  rootId: "text",
  sessionId: "text",
  sandboxName: "text",
  createdAt: "whole",
  updatedAt: "whole",
});

const sorts = {
  createdAt: { column: "created_at", type: "number" },
  updatedAt: { column: "updated_at", type: "number" },
  name: { column: "name", type: "string" },
} as const satisfies Record<DriveQuery["sortBy"], Sort>;

export function driveStore({ db, statements }: Pick<Engine, "db" | "statements">): DriveStore {
  const detachment = statement(({ sessionId, at }: { sessionId: string; at: number }) =>
    db
      .updateTable("drives")
      .set({ session_id: null, sandbox_name: null, updated_at: at })
      .where("session_id", "=", sessionId),
  );
  return {
    insertDrive: durable(async (drive) => {
      const inserted = await db
        .insertInto("drives")
        .values(drives.toRow(drive))
        .onConflict((conflict) => conflict.columns(["project_id", "name"]).doNothing())
        .returning("id")
        .executeTakeFirst();
      if (!inserted)
        throw new SandkeepError("exists", `Cannot create the drive "${drive.name}": the project has one of that name`);
    }),

    findDrive: (projectId, name) =>
      first(
        db.selectFrom("drives").selectAll().where("project_id", "=", projectId).where("name", "=", name),
        drives.toValue,
      ),

    getDrive: (id) => first(db.selectFrom("drives").selectAll().where("id", "=", id), drives.toValue),

    updateDrive: durable((id, changes) =>
      first(
        db.updateTable("drives").set(drives.toChanges(changes)).where("id", "=", id).returningAll(),
        drives.toValue,
      ),
    ),

    async attachDrive(id, sessionId, sandboxName, at) {
      const attached = await db
        .updateTable("drives")
        .set({ session_id: sessionId, sandbox_name: sandboxName, updated_at: at })
        .where("id", "=", id)
        .where((eb) => eb.or([eb("session_id", "is", null), eb("session_id", "=", sessionId)]))
        .returning("id")
        .executeTakeFirst();
      return attached !== undefined;
    },

    async detachDrives(sessionId, at) {
      await statements.all(detachment({ sessionId, at }));
    },

    deleteDrive: durable(async (id) => {
      const deleted = await db
        .deleteFrom("drives")
        .where("id", "=", id)
        .where("session_id", "is", null)
        .returning("id")
        .executeTakeFirst();
      return deleted !== undefined;
    }),

    listDrives(query) {
      const { projectId, namePrefix, sortBy, order } = query;
      const { column, type } = sorts[sortBy];
      return readPage<Row<Drive>, Drive>(
        {
          query,
          sort: { column, type },
          list: { of: "drives", projectId, namePrefix },
          read(position, limit) {
            const pageBegins = sortBy === "name" && position ? order : undefined;
            const conditions = namePrefix === undefined ? [] : startingWith("name", namePrefix, pageBegins);
            if (position) conditions.push(behind(position, order, column, "id"));
            return db
              .selectFrom("drives")
              .selectAll()
              .where("project_id", "=", projectId)
              .where((eb) => eb.and(conditions))
              .orderBy(column, order)
              .orderBy("id", order)
              .limit(limit)
              .execute();
          },
        },
        drives.toValue,
      );
    },
  };
}
