/** Teams on E2B's API: the team of a key, which E2B's command line requests at login. */

import type { Hono } from "hono";
import { bearerOf } from "../kit/authentication.ts";
import { json } from "../kit/http.ts";
import { type Dialect, type Env, queryOf } from "./request.ts";

export function teamRoutes(app: Hono<Env>, { core, schemas }: Dialect): void {
  app.get("/teams", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const apiKey = c.req.header("x-api-key") || bearerOf(c.req.raw);
    const teams = await core.access.teams(c.get("owner"));
    return json(teams.map(({ id: teamID, slug: name }, at) => ({ teamID, name, apiKey, isDefault: at === 0 })));
  });
}
