/** Keys of the caller's team: create with limits, list with last use, delete. A key's secret is shown only once. */

import type { Hono } from "hono";
import { z } from "zod";
import { SandkeepError } from "../../core/model/errors.ts";
import { policyOfText, textOfPolicy } from "../../core/network/policy-text.ts";
import type { ApiKey } from "../../core/ports/store.ts";
import { bodyText, json, jsonOf, parsed } from "../kit/http.ts";
import { ids } from "../kit/ids.ts";
import type { Dialect, Env } from "./sandkeep.ts";

const longestBody = 64 << 10;

const keyBody = z.strictObject({
  name: z.string().min(1).max(128),
  project: z.string().min(1).max(128).optional(),
  readOnly: z.boolean().optional(),
  policyCeiling: z.string().min(1).max(16_384).optional(),
  /** ms since 1970 */
  expiresAt: z.int().min(0).optional(),
});

export function keyRoutes(app: Hono<Env>, { core }: Dialect): void {
  app.get("/keys", async (c) => json({ keys: (await core.access.keys(c.get("caller"))).map(printKey) }));

  app.post("/keys", async (c) => {
    const { name, policyCeiling, ...limits } = parsed(keyBody, jsonOf(await bodyText(c.req.raw, longestBody)));
    const { key, secret } = await core.access.createKey(c.get("caller"), name, {
      ...limits,
      ...(policyCeiling !== undefined && { policyCeiling: policyOfText(policyCeiling) }),
    });
    return json({ key: printKey(key), secret }, 201);
  });

  app.delete("/keys/:key", async (c) => {
    const id = c.req.param("key");
    if (!ids.key.test(id)) throw new SandkeepError("not-found", "Key not found.");
    await core.access.deleteKey(c.get("caller"), id);
    return new Response(null, { status: 204 });
  });
}

function printKey({ id, name, hint, projectId, readOnly, policyCeiling, ...key }: Omit<ApiKey, "hash">): object {
  return {
    id,
    name,
    hint,
    projectId: projectId ?? null,
    readOnly: readOnly ?? false,
    policyCeiling: policyCeiling ? textOfPolicy(policyCeiling) : null,
    createdAt: key.createdAt,
    expiresAt: key.expiresAt ?? null,
    lastUsedAt: key.lastUsedAt ?? null,
  };
}
