/** Sessions on InstaVM's wire: the list of sandboxes, and a session's status, usage and URL. */

import type { Hono } from "hono";
import type { z } from "zod";
import type { CreateSpec } from "../../core/sandboxes/sandboxes.ts";
import { json } from "../kit/http.ts";
import { portUrl } from "../kit/port-url.ts";
import { Refusal } from "../kit/refusal.ts";
import { bodyOf, type Dialect, type Env, ownerByBody, ownerOf, queryOf, sessionOf, vmOfSession } from "./request.ts";
import type { Schemas } from "./schemas.ts";
import * as wire from "./wire.ts";

export function sessionRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.get("/v1/sessions/sandboxes", async (c) => {
    const { metadata, limit } = queryOf(c, schemas.sandboxesQuery);
    const query = { limit, order: "desc" as const, ...(metadata && { contains: metadata }) };
    const { items } = await core.sessions.summaries(ownerOf(c), query);
    return json(items.map(wire.sandboxInfo));
  });

  app.post("/v1/sessions/session", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { api_key: key, ...body } = await bodyOf(c, schemas.sessionBody);
    const owner = await ownerByBody(c, dialect, key);
    return json(wire.session(await core.sandboxes.create(owner, machineSpec(body))));
  });

  app.get("/v1/sessions/session/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    return json(wire.session(await vmOfSession(dialect, ownerOf(c), c.req.param("id"))));
  });

  app.delete("/v1/sessions/session/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const owner = ownerOf(c);
    const { id, name } = await sessionOf(dialect, owner, c.req.param("id"));
    await core.sandboxes.delete(owner, name);
    return json({ message: "Session deleted", session_id: id });
  });

  app.get("/v1/sessions/status/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const vm = await vmOfSession(dialect, ownerOf(c), c.req.param("id"));
    return json({ session_id: vm.sandbox.id, vm_id: vm.session.id, vm_status: wire.vmStatus(vm) });
  });

  app.get("/v1/sessions/usage/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const owner = ownerOf(c);
    const { sandbox, session } = await vmOfSession(dialect, owner, c.req.param("id"));
    // The sandbox's totals already include ended sessions.
    const now = session.stoppedAt === undefined ? await core.sessions.usage(owner, session.id) : nothing;
    return json(wire.usage(sandbox, now));
  });

  app.get("/v1/sessions/app-url/:id", async (c) => {
    const { port } = queryOf(c, schemas.appUrlQuery);
    const sandbox = await sessionOf(dialect, ownerOf(c), c.req.param("id"));
    const route = sandbox.routes.find((each) => !each.closed && (port === undefined || each.port === port));
    if (!route) throw new Refusal(404, "Session has no public share: make one with POST /v1/shares");
    return json({ session_id: sandbox.id, port: route.port, app_url: portUrl(dialect.domain(), route.subdomain) });
  });
}

/** the settings that sessions and machines share; programs run as root, as on the hosted service */
export function machineSpec(body: Machine): CreateSpec {
  return {
    base: {},
    user: "root",
    persistent: false,
    timeout: (body.vm_lifetime_seconds ?? usualLifetime) * 1000,
    vcpus: body.vcpu_count ?? undefined,
    memory: body.memory_mb ?? undefined,
    tags: body.metadata ?? {},
    env: body.env ?? {},
  };
}

type Machine = Pick<
  z.output<Schemas["sessionBody"]>,
  "vm_lifetime_seconds" | "vcpu_count" | "memory_mb" | "metadata" | "env"
>;

const usualLifetime = 300;
const nothing = { cpuMs: 0, durationMs: 0, ingressBytes: 0, egressBytes: 0 };
