/** Snapshots on Vercel's wire: list, tree, get, delete. */

import type { Hono } from "hono";
import { json } from "../kit/http.ts";
import { notFound } from "./errors.ts";
import { callerOf, type Dialect, type Env, idOf, ownerOf, queryOf } from "./request.ts";
import * as wire from "./wire.ts";

const snapshots = "/:version{v[234]}/sandboxes/snapshots";

export function snapshotLists(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.get(snapshots, async (c) => {
    const { value } = queryOf(c, schemas.historyQuery);
    const owner = await ownerOf(c, dialect, value, value.project);
    const page = await core.snapshots.list(owner, {
      limit: value.limit,
      order: value.sortOrder,
      ...(value.cursor !== undefined && { cursor: value.cursor }),
      ...(value.name !== undefined && { sandboxName: value.name }),
    });
    return json({ snapshots: page.items.map(wire.snapshot), pagination: wire.pagination(page) });
  });

  app.get(`${snapshots}/tree`, async (c) => {
    const { value } = queryOf(c, schemas.treeQuery);
    const owner = await ownerOf(c, dialect, value, value.project);
    if (!value.snapshotId.startsWith("snap_")) throw notFound("Snapshot not found.");
    const { limit, sortOrder: order } = value;
    const { anchor, nodes, next } = await core.snapshots.tree(owner, value.snapshotId, { limit, order });
    return json({
      snapshots: nodes.map(wire.treeNode),
      anchor: wire.treeNode(anchor),
      pagination: { count: nodes.length, next: next ?? null },
    });
  });
}

/** routes for one snapshot by its id, which are the same in every version */
export function snapshotRoutes(app: Hono<Env>, dialect: Dialect, path = snapshots): void {
  const { core, schemas } = dialect;

  app.get(`${path}/:snapshotId`, async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    return json({ snapshot: wire.snapshot(await core.snapshots.get(caller, idOf(c, "snapshotId"))) });
  });

  app.delete(`${path}/:snapshotId`, async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    return json({ snapshot: wire.snapshot(await core.snapshots.delete(caller, idOf(c, "snapshotId"))) });
  });
}
