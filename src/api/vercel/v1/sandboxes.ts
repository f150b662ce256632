/** Sandboxes on version 1 of Vercel's wire, which are sessions: create, list, get, stop, extend, network policy, snapshot. */

import type { Hono } from "hono";
import type { Session } from "../../../core/model/sandbox.ts";
import { json } from "../../kit/http.ts";
import { worded } from "../errors.ts";
import { policyFromWire } from "../network-policy.ts";
import {
  addressesFor,
  bodyOf,
  callerOf,
  type Dialect,
  type Env,
  idOf,
  ownerOf,
  queryOf,
  type VercelContext,
} from "../request.ts";
import { createSpec, madeOnce, routesOf } from "../sandboxes.ts";
import { timeoutTooLong } from "../sessions/sessions.ts";
import * as wire from "../wire.ts";
import { boundOf, pagination } from "./pagination.ts";
import { sandbox, snapshotting } from "./wire.ts";

export function sandboxRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.post("/v1/sandboxes", async (c) => {
    const { value: scope } = queryOf(c, schemas.scopeQuery);
    const sent = await bodyOf(c, dialect, schemas.v1CreateBody);
    const owner = await ownerOf(c, dialect, scope, sent.value.projectId);
    const spec = { ...createSpec("v1", sent.value), persistent: false, namedBySession: true };
    return madeOnce(c, dialect, {
      owner,
      operation: "create v1",
      text: sent.text,
      isNamed: false,
      make: () => core.sandboxes.create(owner, spec),
      print: (made) => ({
        sandbox: sandbox(made.session, agentOf(c)),
        routes: routesOf(made, addressesFor(c, dialect), sent.private),
      }),
    });
  });

  app.get("/v1/sandboxes", async (c) => {
    const { value } = queryOf(c, schemas.v1ListQuery);
    const owner = await ownerOf(c, dialect, value, value.project);
    const bounds = { since: boundOf(value.since), until: boundOf(value.until) };
    const page = await core.sessions.timeline(owner, { limit: value.limit, ...bounds });
    const agent = agentOf(c);
    return json({ sandboxes: page.items.map((each) => sandbox(each, agent)), pagination: pagination(page) });
  });

  app.get("/v1/sandboxes/:sessionId", async (c) => {
    const { value, private: hidden } = queryOf(c, schemas.scopeQuery);
    const caller = await callerOf(c, dialect, value);
    const session = await core.sessions.get(caller, idOf(c, "sessionId"));
    const found = { session, sandbox: await core.sessions.sandboxOf(caller, session.id) };
    return json({ sandbox: sandbox(session, agentOf(c)), routes: routesOf(found, addressesFor(c, dialect), hidden) });
  });

  app.post("/v1/sandboxes/:sessionId/stop", async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    await bodyOf(c, dialect, schemas.emptyBody);
    const { session } = await core.sessions.stop(caller, idOf(c, "sessionId"));
    return sandboxAnswer(c, session);
  });

  app.post("/v1/sandboxes/:sessionId/extend-timeout", async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const { value } = await bodyOf(c, dialect, schemas.extendBody);
    const extended = core.sessions.extend(caller, idOf(c, "sessionId"), value.duration);
    return sandboxAnswer(c, await worded(extended, timeoutTooLong));
  });

  app.post("/v1/sandboxes/:sessionId/network-policy", async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const { value } = await bodyOf(c, dialect, schemas.networkPolicyBody);
    const policy = policyFromWire(value);
    return sandboxAnswer(c, await core.sessions.setNetworkPolicy(caller, idOf(c, "sessionId"), policy));
  });

  app.post("/v1/sandboxes/:sessionId/snapshot", async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const { value } = await bodyOf(c, dialect, schemas.snapshotBody);
    const { snapshot, session } = await core.sessions.snapshot(caller, idOf(c, "sessionId"), value);
    return json({ snapshot: wire.snapshot(snapshot), sandbox: snapshotting(session, agentOf(c)) }, 201);
  });
}

function sandboxAnswer(c: VercelContext, session: Session): Response {
  return json({ sandbox: sandbox(session, agentOf(c)) });
}

function agentOf(c: VercelContext): string | undefined {
  return c.req.header("user-agent");
}
