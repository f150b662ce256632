/** Volumes on E2B's API, which are drives of the core. */

import type { Hono } from "hono";
import { isSandkeepError } from "../../../core/model/errors.ts";
import type { Drive } from "../../../core/model/sandbox.ts";
import { json } from "../../kit/http.ts";
import { ids } from "../../kit/ids.ts";
import { Refusal } from "../../kit/refusal.ts";
import { accessToken } from "../access/tokens.ts";
import { bodyOf, type Dialect, type E2bContext, type Env, nothing, queryOf } from "../request.ts";

const mostVolumes = 1000;

export function volumeRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.post("/volumes", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { name } = await bodyOf(c, dialect, schemas.volumeBody);
    const { drive, created } = await core.drives.getOrCreate(c.get("owner"), name);
    if (!created) throw new Refusal(409, `Cannot create the volume: there is one of the name "${name}"`);
    return json(withToken(c, drive), 201);
  });

  app.get("/volumes", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const query = { limit: mostVolumes, order: "asc", sortBy: "createdAt" } as const;
    const { items } = await core.drives.list(c.get("owner"), query);
    return json(items.map(({ id: volumeID, name }) => ({ volumeID, name })));
  });

  app.get("/volumes/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    return json(withToken(c, await volumeOf(c)));
  });

  app.delete("/volumes/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    await core.drives.delete(c.get("owner"), (await volumeOf(c)).name);
    return nothing();
  });

  async function volumeOf(c: E2bContext): Promise<Drive> {
    const id = c.req.param("id") ?? "";
    if (!ids.drive.test(id)) throw noVolume(id);
    return core.drives.byId(c.get("owner"), id).catch((error: unknown) => {
      throw isSandkeepError(error, "not-found") ? noVolume(id) : error;
    });
  }

  /** the volume with a token for its files */
  function withToken(c: E2bContext, { id, name }: Drive): object {
    return { volumeID: id, name, token: accessToken(dialect, id, c.get("owner")) };
  }
}

function noVolume(id: string): Refusal {
  return new Refusal(404, `Volume "${id.slice(0, 128)}" not found`);
}
