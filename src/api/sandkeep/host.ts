/** Routes for the operator that concern the whole daemon. */

import type { Hono } from "hono";
import { json } from "../kit/http.ts";
import type { Dialect, Env } from "./sandkeep.ts";

export function hostRoutes(app: Hono<Env>, { core }: Dialect): void {
  app.post("/upgrade", async (c) => json(await core.host.upgrade(c.get("caller"))));
}
