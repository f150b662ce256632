/** The list of snapshots on version 1 of Vercel's wire. The routes for one snapshot are the same in every version. */

import type { Hono } from "hono";
import { json } from "../../kit/http.ts";
import { type Dialect, type Env, ownerOf, queryOf } from "../request.ts";
import * as wire from "../wire.ts";
import { boundOf, pagination } from "./pagination.ts";

export function snapshotList(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.get("/v1/sandboxes/snapshots", async (c) => {
    const { value } = queryOf(c, schemas.v1ListQuery);
    const owner = await ownerOf(c, dialect, value, value.project);
    const bounds = { since: boundOf(value.since), until: boundOf(value.until) };
    const page = await core.snapshots.timeline(owner, { limit: value.limit, ...bounds });
    return json({ snapshots: page.items.map(wire.snapshot), pagination: pagination(page) });
  });
}
