/** API keys of the caller's team on InstaVM's wire. The key itself is shown only once, when it is created. */

import type { Hono } from "hono";
import { json } from "../kit/http.ts";
import { notFound } from "./errors.ts";
import { bodyOf, type Dialect, type Env, idOf, orNotFound, ownerOf, queryOf } from "./request.ts";
import * as wire from "./wire.ts";

export function keyRoutes(app: Hono<Env>, { core, schemas }: Dialect): void {
  app.post("/v1/api-keys", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { description } = await bodyOf(c, schemas.keyBody);
    const { key, secret } = await core.access.createKey(ownerOf(c), description ?? "instavm");
    return json({ ...wire.key(key), api_key: secret }, 201);
  });

  app.get("/v1/api-keys", async (c) => {
    const { limit } = queryOf(c, schemas.listQuery);
    return json((await core.access.keys(ownerOf(c))).slice(0, limit).map(wire.key));
  });

  app.get("/v1/api-keys/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const id = idOf(c, "API key");
    const key = (await core.access.keys(ownerOf(c))).find((each) => each.id === id);
    if (!key) throw notFound("API key");
    return json(wire.key(key));
  });

  app.patch("/v1/api-keys/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { description } = await bodyOf(c, schemas.keyChanges);
    return json(
      wire.key(await orNotFound(core.access.renameKey(ownerOf(c), idOf(c, "API key"), description), "API key")),
    );
  });

  app.delete("/v1/api-keys/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const id = idOf(c, "API key");
    await orNotFound(core.access.deleteKey(ownerOf(c), id), "API key");
    return json({ message: "API key deleted", id });
  });
}
