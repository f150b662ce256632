/** Drives on Vercel's wire: get or create, get, list, fork, delete. */

import type { Hono } from "hono";
import { json, parsed } from "../kit/http.ts";
import { notFound } from "./errors.ts";
import { bodyOf, type Dialect, type Env, ownerOf, queryOf, type VercelContext } from "./request.ts";
import * as wire from "./wire.ts";

export function driveRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;
  const drives = "/:version{v[234]}/sandboxes/drives";

  app.post(`${drives}/:name`, async (c) => {
    const { value: scope } = queryOf(c, schemas.scopeQuery);
    const { value } = await bodyOf(c, dialect, schemas.driveBody);
    const { name } = parsed(schemas.drivePath, { name: c.req.param("name") });
    const owner = await ownerOf(c, dialect, scope, value.projectId);
    const { maxSizeBytes, region } = value;
    const { drive, created } = await core.drives.getOrCreate(owner, name, { maxSizeBytes, region });
    return json({ drive: wire.drive(drive) }, created ? 201 : 200);
  });

  app.get(drives, async (c) => {
    const { value } = queryOf(c, schemas.drivesQuery);
    const owner = await ownerOf(c, dialect, value, value.projectId);
    const page = await core.drives.list(owner, {
      limit: value.limit,
      order: value.sortOrder,
      sortBy: value.sortBy,
      ...(value.cursor !== undefined && { cursor: value.cursor }),
      ...(value.namePrefix !== undefined && { namePrefix: value.namePrefix }),
    });
    return json({ drives: page.items.map(wire.drive), pagination: wire.pagination(page) });
  });

  app.get(`${drives}/:name`, async (c) => {
    const { value } = queryOf(c, schemas.sandboxQuery);
    const owner = await ownerOf(c, dialect, value, value.projectId);
    return json({ drive: wire.drive(await core.drives.find(owner, driveOf(c))) });
  });

  app.post(`${drives}/:name/fork`, async (c) => {
    const { value: query } = queryOf(c, schemas.sandboxQuery);
    const { value } = await bodyOf(c, dialect, schemas.driveForkBody);
    const owner = await ownerOf(c, dialect, query, query.projectId);
    return json({ drive: wire.drive(await core.drives.fork(owner, driveOf(c), value.name)) }, 201);
  });

  app.delete(`${drives}/:name`, async (c) => {
    const { value } = queryOf(c, schemas.sandboxQuery);
    const owner = await ownerOf(c, dialect, value, value.projectId);
    return json({ drive: wire.drive(await core.drives.delete(owner, driveOf(c))) });
  });

  /** the name in the path; an invalid name is not looked up */
  function driveOf(c: VercelContext): string {
    const path = schemas.drivePath.safeParse({ name: c.req.param("name") });
    if (!path.success) throw notFound("Drive not found for this project.");
    return path.data.name;
  }
}
