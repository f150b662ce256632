/** Describes the caller: its team and project, which must exist if named, and whether its key may only read. */

import type { Hono } from "hono";
import { json } from "../kit/http.ts";
import type { Dialect, Env } from "./sandkeep.ts";

export function callerRoutes(app: Hono<Env>, { core }: Dialect): void {
  app.get("/caller", async (c) => {
    const { team, project } = c.req.query();
    const { teamId, projectId, scope } = await core.access.owner(c.get("caller"), { team, project });
    return json({ teamId, projectId, readOnly: scope?.readOnly ?? false });
  });
}
