/**
 * Snapshots on E2B's API. A sandbox keeps running while one is taken; templates.ts deletes them. Requested snapshots have
 * a name; those of pauses have none and are not shown.
 */

import type { Hono } from "hono";
import { isSandkeepError } from "../../../core/model/errors.ts";
import type { Owner, Snapshot } from "../../../core/model/sandbox.ts";
import { idOfLabel } from "../../../core/model/sandbox-label.ts";
import { json } from "../../kit/http.ts";
import { ids } from "../../kit/ids.ts";
import { bodyOf, type Dialect, type Env, queryOf, sandboxOf } from "../request.ts";
import { ownName, ownTeam } from "../templates/own-team.ts";
import * as wire from "../wire.ts";

const forEver = 0;

export function snapshotRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.post("/sandboxes/:id/snapshots", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { name } = await bodyOf(c, dialect, schemas.snapshotBody);
    const { session } = await sandboxOf(c, dialect);
    const own = name === undefined ? undefined : plainName(await ownName(dialect, c.get("owner"), name));
    const options = { name: own ?? `snapshot-${dialect.clock().toString(36)}`, expiration: forEver };
    const { slug } = await ownTeam(dialect, c.get("owner"));
    // A pause without memory has stopped it.
    const { snapshot } = await core.sessions.checkpointOrCopy(c.get("owner"), session.id, options);
    return json(wire.snapshot(snapshot, slug), 201);
  });

  app.get("/snapshots", async (c) => {
    const { sandboxID, name: asked, limit, nextToken } = queryOf(c, schemas.snapshotsQuery);
    const { slug } = await ownTeam(dialect, c.get("owner"));
    const sandboxId = sandboxID === undefined ? undefined : idOfLabel(sandboxID);
    if (sandboxID !== undefined && sandboxId === undefined) return json([]);
    const { items, next } = await core.snapshots.list(c.get("owner"), {
      name: asked === undefined || plainName(await ownName(dialect, c.get("owner"), asked)),
      there: true,
      limit,
      order: "desc",
      ...(sandboxId !== undefined && { sandboxId }),
      ...(nextToken !== undefined && { cursor: nextToken }),
    });
    return json(
      items.map((each) => wire.snapshot(each, slug)),
      200,
      next === undefined ? {} : { "x-next-token": next },
    );
  });
}

/** whether this can be the id of a snapshot, with or without the tag that clients add */
export function isSnapshotId(text: string): boolean {
  return ids.snapshot.test(plainName(text));
}

/** without the tag that a name has if it names none */
function plainName(text: string): string {
  return text.replace(/:default$/, "");
}

/** a snapshot by its id, or the newest one with this name; undefined if there is none */
export async function snapshotCalled({ core }: Dialect, owner: Owner, text: string): Promise<Snapshot | undefined> {
  const name = plainName(text);
  if (isSnapshotId(text)) {
    const snapshot = await core.snapshots.get(owner, name).catch((error: unknown) => {
      if (isSandkeepError(error, "not-found")) return undefined;
      throw error;
    });
    return snapshot?.state === "created" && snapshot.projectId === owner.projectId ? snapshot : undefined;
  }
  const [, slug, inTeam] = /^([\w-]+)\/([^/]+)$/.exec(name) ?? [];
  const isOwn = slug !== undefined && slug.toLowerCase() === (await core.access.team(owner)).slug;
  const { items } = await core.snapshots.list(owner, {
    name: (isOwn && inTeam) || name,
    there: true,
    limit: 1,
    order: "desc",
  });
  return items[0];
}
