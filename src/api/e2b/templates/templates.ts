/** Templates on E2B's API: lists, details, names, tags and visibility. */

import type { Hono } from "hono";
import { json } from "../../kit/http.ts";
import { Refusal } from "../../kit/refusal.ts";
import { bodyOf, type Dialect, type Env, nothing, queryOf } from "../request.ts";
import { isSnapshotId, snapshotCalled } from "../sandboxes/snapshots.ts";
import { buildRoutes } from "./builds.ts";
import { ownTeam } from "./own-team.ts";
import { templateSchemas } from "./schemas.ts";
import * as wire from "./wire.ts";

/** most templates in the list without pages */
const longest = 1000;

export function templateRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, limits } = dialect;
  const { emptyQuery } = dialect.schemas;
  const schemas = templateSchemas(limits);
  buildRoutes(app, dialect, schemas);

  app.get("/v2/templates", async (c) => {
    const { limit, nextToken, teamID } = queryOf(c, schemas.listQuery);
    const { slug } = await ownTeam(dialect, c.get("owner"), teamID);
    const cursor = nextToken === undefined ? {} : { cursor: nextToken };
    const { items, next } = await core.templates.list(c.get("owner"), { limit, order: "desc", ...cursor });
    const headers: Record<string, string> = next === undefined ? {} : { "x-next-token": next };
    return json(
      items.map((each) => wire.listed(each, limits.disk, slug)),
      200,
      headers,
    );
  });

  app.get("/templates", async (c) => {
    const { teamID } = queryOf(c, schemas.legacyListQuery);
    const { slug } = await ownTeam(dialect, c.get("owner"), teamID);
    const { items } = await core.templates.list(c.get("owner"), { limit: longest, order: "desc" });
    return json(items.map((each) => wire.listed(each, limits.disk, slug)));
  });

  app.get("/templates/aliases/:alias", async (c) => {
    queryOf(c, emptyQuery);
    const name = c.req.param("alias");
    const template = await core.templates.lookUp(c.get("owner"), name);
    if (!template) throw new Refusal(404, `Template "${name.slice(0, 128)}" not found`);
    if (template.teamId !== c.get("owner").teamId) {
      throw new Refusal(403, `Template "${name.slice(0, 128)}" belongs to another team`);
    }
    return json({ templateID: template.id, public: template.isPublic });
  });

  app.post("/templates/tags", async (c) => {
    queryOf(c, emptyQuery);
    const { target, tags } = await bodyOf(c, dialect, schemas.assignBody);
    const assigned = await core.templates.assignTags(c.get("owner"), target, tags);
    return json({ buildID: assigned[0]?.buildId, tags: assigned.map(({ tag }) => tag) }, 201);
  });

  app.delete("/templates/tags", async (c) => {
    queryOf(c, emptyQuery);
    const { name, tags } = await bodyOf(c, dialect, schemas.removeBody);
    await core.templates.removeTags(c.get("owner"), name, tags);
    return nothing();
  });

  app.get("/templates/:id/tags", async (c) => {
    queryOf(c, emptyQuery);
    return json((await core.templates.tags(c.get("owner"), c.req.param("id"))).map(wire.tag));
  });

  app.get("/templates/:id", async (c) => {
    const { limit, nextToken } = queryOf(c, schemas.detailQuery);
    const { slug } = await ownTeam(dialect, c.get("owner"));
    const page = { limit, ...(nextToken !== undefined && { cursor: nextToken }) };
    const { template, builds, next } = await core.templates.builds(c.get("owner"), c.req.param("id"), page);
    const headers: Record<string, string> = next === undefined ? {} : { "x-next-token": next };
    return json(wire.detail(template, builds, limits.disk, slug), 200, headers);
  });

  for (const path of ["/v2/templates/:id", "/templates/:id"]) {
    app.patch(path, async (c) => {
      queryOf(c, emptyQuery);
      const body = await bodyOf(c, dialect, schemas.visibilityBody);
      const owner = c.get("owner");
      const { name } = await core.templates.publish(owner, c.req.param("id") ?? "", body.public);
      const { slug } = await ownTeam(dialect, owner);
      return json({ names: [`${slug}/${name}`] });
    });
  }

  // A snapshot is deleted here too, since a sandbox can start from either.
  app.delete("/templates/:id", async (c) => {
    queryOf(c, emptyQuery);
    const [owner, id] = [c.get("owner"), c.req.param("id")];
    const isTemplate = !isSnapshotId(id) && (await core.templates.lookUp(owner, id))?.teamId === owner.teamId;
    const snapshot = isTemplate ? undefined : await snapshotCalled(dialect, owner, id);
    if (snapshot) await core.snapshots.delete(owner, snapshot.id);
    else await core.templates.delete(owner, id);
    return nothing();
  });
}
