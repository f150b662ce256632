/** Sessions on Vercel's wire: list, get, stop, extend, network policy, snapshot. */

import type { Hono } from "hono";
import type { SandkeepError } from "../../../core/model/errors.ts";
import type { Session } from "../../../core/model/sandbox.ts";
import { json } from "../../kit/http.ts";
import { VercelError, worded } from "../errors.ts";
import { policyFromWire } from "../network-policy.ts";
import { addressesFor, bodyOf, callerOf, type Dialect, type Env, idOf, ownerOf, queryOf } from "../request.ts";
import { routesOf } from "../sandboxes.ts";
import * as wire from "../wire.ts";

/** the error for a session that would run longer than allowed */
export const timeoutTooLong = {
  invalid: (error: SandkeepError) => new VercelError(400, "sandbox_timeout_invalid", error.message, { cause: error }),
};

const week = 7 * 86_400_000;

export function sessionRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.get("/:version{v[234]}/sandboxes/sessions", async (c) => {
    const { value } = queryOf(c, schemas.historyQuery);
    const owner = await ownerOf(c, dialect, value, value.project);
    const { limit, sortOrder: order, cursor, name } = value;
    const query = { limit, order, ...(cursor !== undefined && { cursor }) };
    const page = await (name === undefined
      ? core.sessions.list(owner, query)
      : core.sessions.ofSandbox(owner, name, query));
    return json({ sessions: page.items.map(wire.session), pagination: wire.pagination(page) });
  });

  app.get("/:version{v[234]}/sandboxes/sessions/:sessionId", async (c) => {
    const { value, private: hidden } = queryOf(c, schemas.scopeQuery);
    const caller = await callerOf(c, dialect, value);
    const session = await core.sessions.get(caller, idOf(c, "sessionId"));
    const sandbox = await core.sessions.sandboxOf(caller, session.id);
    const routes = routesOf({ sandbox, session }, addressesFor(c, dialect), hidden);
    return json({ session: wire.session(session), routes });
  });

  app.post("/:version{v[234]}/sandboxes/sessions/:sessionId/stop", async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    await bodyOf(c, dialect, schemas.emptyBody);
    const { session, sandbox, snapshot } = await core.sessions.stop(caller, idOf(c, "sessionId"));
    return json({
      session: wire.session(session),
      sandbox: wire.sandbox(sandbox),
      // The caller of a manual snapshot has already received it.
      ...(snapshot?.method === "automatic" && { snapshot: wire.snapshot(snapshot) }),
    });
  });

  app.post("/:version{v[234]}/sandboxes/sessions/:sessionId/extend-timeout", async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const { value } = await bodyOf(c, dialect, schemas.extendBody);
    const extended = core.sessions.extend(caller, idOf(c, "sessionId"), value.duration);
    return sessionAnswer(await worded(extended, timeoutTooLong));
  });

  app.post("/:version{v[234]}/sandboxes/sessions/:sessionId/network-policy", async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const { value } = await bodyOf(c, dialect, schemas.networkPolicyBody);
    const policy = policyFromWire(value);
    return sessionAnswer(await core.sessions.setNetworkPolicy(caller, idOf(c, "sessionId"), policy));
  });

  app.post("/:version{v[234]}/sandboxes/sessions/:sessionId/snapshot", async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const { value } = await bodyOf(c, dialect, schemas.snapshotBody);
    const id = idOf(c, "sessionId");
    // From version 3 on, a snapshot lives a week unless the request or the sandbox says otherwise.
    const usual = async () => (await core.sessions.sandboxOf(caller, id)).snapshotExpiration ?? week;
    const expiration = value.expiration ?? (c.req.param("version") === "v2" ? undefined : await usual());
    const { snapshot, session } = await core.sessions.snapshot(caller, id, { expiration });
    return json({ snapshot: wire.snapshot(snapshot), session: wire.snapshotting(session) }, 201);
  });
}

function sessionAnswer(session: Session): Response {
  return json({ session: wire.session(session) });
}
