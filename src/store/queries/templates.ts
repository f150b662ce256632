/** Templates of teams, their builds, tags and logs. */

import { SandkeepError } from "../../core/model/errors.ts";
import { logLevels, type Template, type TemplateBuild, type TemplateLogLine } from "../../core/model/template.ts";
import type { TemplateRecords } from "../../core/ports/template-records.ts";
import { durable } from "../durable.ts";
import type { Database } from "../tables.ts";
import { first, mapping } from "./rows.ts";
import { countOfTeam, pageOfTeam } from "./team-rows.ts";

/** most rows in one statement: SQLite has a limit of values */
const mostRows = 1000;

const templates = mapping<Template>({
  id: "text",
  teamId: "text",
  name: "text",
  isPublic: "flag",
  createdAt: "whole",
  updatedAt: "whole",
  spawns: "whole",
  lastSpawnedAt: "whole",
});

const builds = mapping<TemplateBuild>({
  id: "text",
  templateId: "text",
  state: "text",
  tags: "json",
  vcpus: "whole",
  memory: "whole",
  reason: "json",
  createdAt: "whole",
  updatedAt: "whole",
  finishedAt: "whole",
});

export function templateStore(db: Database): TemplateRecords {
  return {
    insertTemplate: durable(async (template) => {
      const inserted = await db
        .insertInto("templates")
        .values(templates.toRow(template))
        .onConflict((conflict) => conflict.columns(["team_id", "name"]).doNothing())
        .returning("id")
        .executeTakeFirst();
      if (inserted) return;
      throw new SandkeepError("exists", `Cannot create the template "${template.name}": the team has one of that name`);
    }),

    getTemplate: (id) => first(db.selectFrom("templates").selectAll().where("id", "=", id), templates.toValue),

    findTemplate: (teamId, name) =>
      first(
        db.selectFrom("templates").selectAll().where("team_id", "=", teamId).where("name", "=", name),
        templates.toValue,
      ),

    listTemplates: (query) => pageOfTeam(db, "templates", query, templates.toValue),

    countTemplates: (teamId) => countOfTeam(db, "templates", teamId),

    updateTemplate: durable((id, changes) =>
      first(
        db.updateTable("templates").set(templates.toChanges(changes)).where("id", "=", id).returningAll(),
        templates.toValue,
      ),
    ),

    async addTemplateSpawn(id, at) {
      await db
        .updateTable("templates")
        .set((eb) => ({ spawns: eb("spawns", "+", 1), last_spawned_at: at }))
        .where("id", "=", id)
        .execute();
    },

    deleteTemplate: durable((id) =>
      db.transaction().execute(async (tx) => {
        const ofTemplate = tx.selectFrom("template_builds").select("id").where("template_id", "=", id);
        await tx.deleteFrom("template_logs").where("build_id", "in", ofTemplate).execute();
        await tx.deleteFrom("template_builds").where("template_id", "=", id).execute();
        await tx.deleteFrom("template_tags").where("template_id", "=", id).execute();
        const deleted = await tx.deleteFrom("templates").where("id", "=", id).returning("id").executeTakeFirst();
        return deleted !== undefined;
      }),
    ),

    insertTemplateBuild: durable(async (build) => {
      await db.insertInto("template_builds").values(builds.toRow(build)).execute();
    }),

    getTemplateBuild: (id) => first(db.selectFrom("template_builds").selectAll().where("id", "=", id), builds.toValue),

    moveTemplateBuild: durable((id, from, state, changes) =>
      first(
        db
          .updateTable("template_builds")
          .set(builds.toChanges({ ...changes, state }))
          .where("id", "=", id)
          .where("state", "in", [...from])
          .returningAll(),
        builds.toValue,
      ),
    ),

    finishTemplateBuild: durable((id, at) =>
      db.transaction().execute(async (tx) => {
        const row = await tx
          .updateTable("template_builds")
          .set(builds.toChanges({ state: "ready", updatedAt: at, finishedAt: at }))
          .where("id", "=", id)
          .where("state", "=", "building")
          .returningAll()
          .executeTakeFirst();
        if (!row) return undefined;
        const build = builds.toValue(row);
        await setTags(tx, build.templateId, build.tags, id, at);
        await tx.updateTable("templates").set({ updated_at: at }).where("id", "=", build.templateId).execute();
        return build;
      }),
    ),

    async templateBuilds(templateId, limit) {
      const rows = await db
        .selectFrom("template_builds")
        .selectAll()
        .where("template_id", "=", templateId)
        .orderBy("created_at", "desc")
        .orderBy("id", "desc")
        .limit(limit)
        .execute();
      return rows.map(builds.toValue);
    },

    pruneTemplateBuilds: durable((templateId, keep) =>
      db.transaction().execute(async (tx) => {
        const old = await tx
          .selectFrom("template_builds")
          .select("id")
          .where("template_id", "=", templateId)
          .orderBy("created_at", "desc")
          .orderBy("id", "desc")
          .offset(keep)
          .limit(mostRows)
          .execute();
        if (old.length === 0) return 0;
        const named = tx.selectFrom("template_tags").select("build_id").where("template_id", "=", templateId);
        const deleted = await tx
          .deleteFrom("template_builds")
          .where(
            "id",
            "in",
            old.map(({ id }) => id),
          )
          .where("state", "!=", "building")
          .where("id", "not in", named)
          .returning("id")
          .execute();
        const gone = deleted.map(({ id }) => id);
        if (gone.length > 0) await tx.deleteFrom("template_logs").where("build_id", "in", gone).execute();
        return gone.length;
      }),
    ),

    async countTemplateBuilds(templateId) {
      const { count } = await db
        .selectFrom("template_builds")
        .select((eb) => eb.fn.countAll<number | string>().as("count"))
        .where("template_id", "=", templateId)
        .executeTakeFirstOrThrow();
      return Number(count);
    },

    async templateBuildsIn(states) {
      const rows = await db
        .selectFrom("template_builds")
        .selectAll()
        .where("state", "in", [...states])
        .execute();
      return rows.map(builds.toValue);
    },

    setTemplateTags: durable((templateId, tags, buildId, at) => setTags(db, templateId, tags, buildId, at)),

    deleteTemplateTags: durable(async (templateId, tags) => {
      if (tags.length === 0) return 0;
      const deleted = await db
        .deleteFrom("template_tags")
        .where("template_id", "=", templateId)
        .where("tag", "in", [...tags])
        .returning("tag")
        .execute();
      return deleted.length;
    }),

    async templateTags(templateId) {
      const rows = await db
        .selectFrom("template_tags")
        .selectAll()
        .where("template_id", "=", templateId)
        .orderBy("created_at", "desc")
        .orderBy("tag")
        .execute();
      return rows.map(({ tag, build_id, created_at }) => ({ tag, buildId: build_id, createdAt: created_at }));
    },

    async addTemplateLog(buildId, number, lines) {
      if (lines.length === 0) return;
      const rows = lines.map(({ at, level, message, step = null }, index) => ({
        build_id: buildId,
        number: number + index,
        at,
        level: logLevels.indexOf(level),
        // PostgreSQL stores no NUL.
        message: message.replaceAll("\0", "\ufffd"),
        step,
      }));
      for (let at = 0; at < rows.length; at += mostRows) {
        await db
          .insertInto("template_logs")
          .values(rows.slice(at, at + mostRows))
          .onConflict((conflict) => conflict.columns(["build_id", "number"]).doNothing())
          .execute();
      }
    },

    async templateLog({ buildId, level, order, limit, offset = 0, from }) {
      const rows = await db
        .selectFrom("template_logs")
        .selectAll()
        .where("build_id", "=", buildId)
        .where("level", ">=", logLevels.indexOf(level))
        .where((eb) => eb.and(from === undefined ? [] : [eb("at", order === "asc" ? ">=" : "<=", from)]))
        .orderBy("number", order)
        .limit(limit)
        .offset(offset)
        .execute();
      return rows.map(
        ({ at, level, message, step }): TemplateLogLine => ({
          at,
          level: logLevels[level] ?? "info",
          message,
          ...(step !== null && { step }),
        }),
      );
    },
  };
}

async function setTags(
  db: Pick<Database, "insertInto">,
  templateId: string,
  tags: readonly string[],
  buildId: string,
  at: number,
): Promise<void> {
  if (tags.length === 0) return;
  await db
    .insertInto("template_tags")
    .values(tags.map((tag) => ({ template_id: templateId, tag, build_id: buildId, created_at: at })))
    .onConflict((conflict) =>
      conflict.columns(["template_id", "tag"]).doUpdateSet({ build_id: buildId, created_at: at }),
    )
    .execute();
}
