/** Secrets on E2B's API. A rule of a sandbox's network names one in the value of a header; no answer has its value. */

import type { Hono } from "hono";
import { z } from "zod";
import type { Owner } from "../../core/model/sandbox.ts";
import type { SecretInfo } from "../../core/secrets/secrets.ts";
import { json } from "../kit/http.ts";
import { headerValue } from "../kit/policy/request-rules.ts";
import { Refusal } from "../kit/refusal.ts";
import { bodyOf, type Dialect, type Env, nothing, queryOf } from "./request.ts";
import { time } from "./wire.ts";

const text = z.string().regex(/^[^\0]*$/);
const value = text.min(1).max(64 << 10);
const metadata = z
  .record(text.min(1).max(128), text.max(1024))
  .refine((pairs) => Object.keys(pairs).length <= 50, { error: "there are more than 50 pairs" });
const createBody = z.strictObject({
  name: z
    .string()
    .min(1)
    .max(256)
    .regex(/^[^{}\p{Cc}]+$/u, { error: "a name has no braces and no control characters" }),
  value,
  metadata: metadata.nullish(),
});
const updateBody = z.strictObject({ value, metadata: metadata.nullish() });

/** how clients write a secret's place in a text */
const placeholder = /\$\{e2b\.secrets\.([^{}]{1,256})\}/g;

export function secretRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.post("/secrets", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { name, value, metadata } = await bodyOf(c, dialect, createBody);
    const secret = await core.secrets.create(c.get("owner"), name, { value, metadata: metadata ?? undefined });
    return json(printed(secret), 201);
  });

  app.get("/secrets", async (c) => {
    const { limit, nextToken } = queryOf(c, schemas.pageQuery);
    const cursor = nextToken === undefined ? {} : { cursor: nextToken };
    const { items, next } = await core.secrets.list(c.get("owner"), { limit, order: "desc", ...cursor });
    return json(items.map(printed), 200, next === undefined ? {} : { "x-next-token": next });
  });

  app.get("/secrets/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    return json(printed(await core.secrets.get(c.get("owner"), c.req.param("id"))));
  });

  app.post("/secrets/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { value, metadata } = await bodyOf(c, dialect, updateBody);
    const spec = { value, metadata: metadata ?? undefined };
    return json(printed(await core.secrets.update(c.get("owner"), c.req.param("id"), spec)));
  });

  app.delete("/secrets/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    await core.secrets.delete(c.get("owner"), c.req.param("id"));
    return nothing();
  });
}

/** rules with the values of the secrets that their headers name */
export async function withSecrets<R extends Rules | null | undefined>(
  { core }: Dialect,
  owner: Owner,
  rules: R,
): Promise<R> {
  if (!rules) return rules;
  const filled = structuredClone(rules);
  for (const { transform } of Object.values(filled).flat()) {
    for (const [name, text] of Object.entries(transform?.headers ?? {})) {
      if (!transform?.headers || text.search(placeholder) < 0) continue;
      const value = await core.secrets.filled(owner, text, placeholder);
      if (!headerValue.test(value)) {
        throw new Refusal(
          400,
          `Cannot set the header "${name}": a secret in it has characters that no header can have`,
        );
      }
      transform.headers[name] = value;
    }
  }
  return filled;
}

type Rules = Record<string, { transform?: { headers?: Record<string, string> | undefined } | undefined }[]>;

function printed({ id, name, version, metadata, createdAt, updatedAt }: SecretInfo): object {
  return {
    secretID: id,
    name,
    currentVersion: version,
    metadata,
    createdAt: time(createdAt),
    updatedAt: time(updatedAt),
  };
}
