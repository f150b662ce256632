/** Teams, their projects and their API keys. */

import { SandkeepError } from "../../core/model/errors.ts";
import type { Project, Team } from "../../core/model/sandbox.ts";
import type { ApiKey, Store } from "../../core/ports/store.ts";
import { durable } from "../durable.ts";
import type { Database } from "../tables.ts";
import { all, first, mapping } from "./rows.ts";

type TeamStore = Pick<
  Store,
  | "insertTeam"
  | "findTeam"
  | "listTeams"
  | "deleteTeam"
  | "setQuota"
  | "insertProject"
  | "findProject"
  | "findAnyProject"
  | "listProjects"
  | "insertKey"
  | "findKey"
  | "listKeys"
  | "getKey"
  | "setKeyQuota"
  | "renameKey"
  | "touchKey"
  | "deleteKey"
>;

const teams = mapping<Team>({ id: "text", slug: "text", createdAt: "whole", quota: "json", deletedAt: "whole" });
const projects = mapping<Project>({ id: "text", uuid: "text", teamId: "text", name: "text", createdAt: "whole" });
const keys = mapping<ApiKey>({
  id: "text",
  teamId: "text",
  name: "text",
  hash: "text",
  hint: "text",
  createdAt: "whole",
  projectId: "text",
  readOnly: "flag",
  policyCeiling: "json",
  expiresAt: "whole",
  admin: "flag",
  lastUsedAt: "whole",
  quota: "json",
});

export function teamStore(db: Database): TeamStore {
  return {
    insertTeam: durable(async (team) => {
      await db
        .insertInto("teams")
        .values(teams.toRow(team))
        .onConflict((conflict) => conflict.column("id").doNothing())
        .execute();
    }),

    setQuota: durable(async (teamId, quota) => {
      await db.updateTable("teams").set(teams.toChanges({ quota })).where("id", "=", teamId).execute();
    }),

    async findTeam(idOrSlug) {
      const found = await db
        .selectFrom("teams")
        .selectAll()
        .where((eb) => eb.or([eb("id", "=", idOrSlug), eb("slug", "=", idOrSlug)]))
        .where("deleted_at", "is", null)
        .execute();
      const row = found.find(({ id }) => id === idOrSlug) ?? found[0];
      return row && teams.toValue(row);
    },

    listTeams: ({ deleted = false } = {}) =>
      all(
        db
          .selectFrom("teams")
          .selectAll()
          .where("deleted_at", deleted ? "is not" : "is", null)
          .orderBy("created_at")
          .orderBy("id"),
        teams.toValue,
      ),

    deleteTeam: durable((id, at) =>
      db.transaction().execute(async (tx) => {
        const deleted = await tx
          .updateTable("teams")
          .set({ deleted_at: at, slug: id })
          .where("id", "=", id)
          .where("deleted_at", "is", null)
          .returning("id")
          .executeTakeFirst();
        if (!deleted) return false;
        await tx.deleteFrom("api_keys").where("team_id", "=", id).execute();
        return true;
      }),
    ),

    insertProject: durable(async (project) => {
      const inserted = await db
        .insertInto("projects")
        .values(projects.toRow(project))
        .onConflict((conflict) => conflict.columns(["team_id", "name"]).doNothing())
        .returning("id")
        .executeTakeFirst();
      if (!inserted)
        throw new SandkeepError("exists", `Cannot create the project "${project.name}": the team has one of that name`);
    }),

    async findProject(teamId, idOrName) {
      const found = await db
        .selectFrom("projects")
        .selectAll()
        .where("team_id", "=", teamId)
        .where((eb) => eb.or([eb("id", "=", idOrName), eb("uuid", "=", idOrName), eb("name", "=", idOrName)]))
        .execute();
      // A name may look like another project's id: the id wins.
      const row = found.find(({ id }) => id === idOrName) ?? found.find(({ uuid }) => uuid === idOrName) ?? found[0];
      return row && projects.toValue(row);
    },

    async findAnyProject(id) {
      const found = await db
        .selectFrom("projects")
        .selectAll()
        .where((eb) => eb.or([eb("id", "=", id), eb("uuid", "=", id)]))
        .execute();
      const row = found.find((project) => project.id === id) ?? found[0];
      return row && projects.toValue(row);
    },

    listProjects: (teamId) =>
      all(
        db.selectFrom("projects").selectAll().where("team_id", "=", teamId).orderBy("created_at").orderBy("id"),
        projects.toValue,
      ),

    insertKey: durable(async (key) => {
      await db.insertInto("api_keys").values(keys.toRow(key)).execute();
    }),

    findKey: (hash) => first(db.selectFrom("api_keys").selectAll().where("hash", "=", hash), keys.toValue),

    listKeys: (teamId) =>
      all(
        db.selectFrom("api_keys").selectAll().where("team_id", "=", teamId).orderBy("created_at").orderBy("id"),
        keys.toValue,
      ),

    getKey: (id) => first(db.selectFrom("api_keys").selectAll().where("id", "=", id), keys.toValue),

    setKeyQuota: durable(async (id, quota) => {
      await db.updateTable("api_keys").set(keys.toChanges({ quota })).where("id", "=", id).execute();
    }),

    renameKey: durable((teamId, id, name) =>
      first(
        db.updateTable("api_keys").set({ name }).where("team_id", "=", teamId).where("id", "=", id).returningAll(),
        keys.toValue,
      ),
    ),

    async touchKey(id, at) {
      await db.updateTable("api_keys").set({ last_used_at: at }).where("id", "=", id).execute();
    },

    deleteKey: durable(async (teamId, id) => {
      const deleted = await db
        .deleteFrom("api_keys")
        .where("team_id", "=", teamId)
        .where("id", "=", id)
        .returning("id")
        .executeTakeFirst();
      return deleted !== undefined;
    }),
  };
}
