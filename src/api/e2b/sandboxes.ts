/** Sandboxes on E2B's API: made, looked at, killed. */

import type { Hono } from "hono";
import type { Owner } from "../../core/model/sandbox.ts";
import { labelOf } from "../../core/model/sandbox-label.ts";
import type { Booted, CreateSpec } from "../../core/sandboxes/sandboxes.ts";
import { json, undoIfGone } from "../kit/http.ts";
import { bodyOf, type Dialect, type Env, queryOf, sandboxOf } from "./request.ts";
import { accessToken } from "./tokens.ts";
import * as wire from "./wire.ts";

/** as whom, and where, commands run unless their caller says otherwise */
export const home = { user: "user", cwd: "/home/user" };

/** paths of both generations of clients, and the seconds that a sandbox runs where they name none */
const generations = { "/sandboxes": 15, "/v2/sandboxes": 300 };

export function sandboxRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  for (const [path, usual] of Object.entries(generations)) {
    app.post(path, async (c) => {
      queryOf(c, schemas.emptyQuery);
      const body = await bodyOf(c, dialect, schemas.createBody);
      const { templateID, timeout = usual, metadata, envVars, autoPause = false } = body;
      const owner = c.get("owner");
      const spec: CreateSpec = {
        base: { image: templateImage(templateID) },
        ...home,
        timeout: timeout * 1000,
        // At the end of its time one that pauses keeps its files, and any other keeps nothing.
        persistent: autoPause,
        ...(body.allow_internet_access === false && { networkPolicy: { mode: "deny-all" } }),
        ...(metadata && { tags: metadata }),
        ...(envVars && { env: envVars }),
      };
      const made = await core.sandboxes.create(owner, spec);
      // A client that gave up waiting creates another one and never hears of this one.
      undoIfGone(c.req.raw, () => core.sandboxes.abandon(owner, made.sandbox.id), dialect.trouble);
      return json(wire.sandbox(made, accessTo(dialect, made, owner)), 201);
    });
  }

  app.get("/sandboxes/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const booted = await sandboxOf(c, dialect);
    return json(wire.detail(booted, accessTo(dialect, booted, c.get("owner")), dialect.limits));
  });

  app.delete("/sandboxes/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { sandbox } = await sandboxOf(c, dialect);
    await core.sandboxes.delete(c.get("owner"), sandbox.name);
    return new Response(null, { status: 204 });
  });
}

export function accessTo(dialect: Dialect, { sandbox }: Booted, owner: Owner): wire.Access {
  const envdAccessToken = accessToken(dialect, labelOf(sandbox.id), owner);
  return { envdAccessToken, domain: new URL(dialect.domain()).host };
}

/** the default template is the default image, unless one of its name was imported */
function templateImage(name: string): NonNullable<CreateSpec["base"]["image"]> {
  return { name, candidates: [name], ...(name === wire.defaultTemplate && { otherwise: "the-default" as const }) };
}
