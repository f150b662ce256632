/** Sessions on Veryfront's wire: create, list, get, heartbeat, delete. */

import type { Hono } from "hono";
import type { Caller, Session } from "../../core/model/sandbox.ts";
import { json, undoIfGone } from "../kit/http.ts";
import { bodyOf, type Dialect, type Env, queryOf, sessionOf } from "./request.ts";
import { findSession, listSessions, printSession, sessionSpec, timeOf, type WireSession } from "./session.ts";

export function sessionRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas, limits } = dialect;

  app.post("/sandbox-sessions", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const body = await bodyOf(c, schemas.createBody, limits.body);
    const owner = await core.access.owner(c.get("caller"), { project: body.project_id });
    const spec = sessionSpec({ mode: body.ttl_mode, hours: body.ttl_hours });
    const { sandbox, session } = await core.sandboxes.create(owner, spec);
    // A client that gave up waiting creates another session and never learns of this one.
    undoIfGone(c.req.raw, () => core.sandboxes.abandon(owner, sandbox.id), dialect.logError);
    return json(await printed(dialect, owner, session), 201);
  });

  app.get("/sandbox-sessions", async (c) => {
    const { project_id: project, cursor, limit } = queryOf(c, schemas.listQuery);
    const owner = await core.access.owner(c.get("caller"), { project });
    const { uuid } = await core.access.project(owner, undefined, owner.projectId);
    const { items, pageInfo } = await listSessions(core, owner, { cursor, limit });
    const place = { publicUrl: dialect.publicUrl(), project: { uuid } };
    return json({ data: items.map((each) => printSession(each, place)), page_info: pageInfo });
  });

  app.get("/sandbox-sessions/:session", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const session = await findSession(core, c.get("caller"), sessionOf(c));
    return json(await printed(dialect, c.get("caller"), session));
  });

  app.post("/sandbox-sessions/:session/heartbeat", async (c) => {
    queryOf(c, schemas.emptyQuery);
    await bodyOf(c, schemas.emptyBody, limits.body);
    const session = await core.sessions.heartbeat(c.get("caller"), sessionOf(c));
    const { expiresAt, lastActivityAt } = session;
    return json({ ok: true, expires_at: timeOf(expiresAt), last_activity_at: timeOf(lastActivityAt) });
  });

  // A repeat gets the same answer: a client that closes in a `finally` may come after the session has ended.
  app.delete("/sandbox-sessions/:session", async (c) => {
    queryOf(c, schemas.emptyQuery);
    await bodyOf(c, schemas.emptyBody, limits.body);
    await core.sessions.stop(c.get("caller"), sessionOf(c));
    return json({ ok: true });
  });
}

async function printed({ core, publicUrl }: Dialect, caller: Caller, session: Session): Promise<WireSession> {
  const project = await core.access.project(caller, undefined, session.projectId);
  return printSession(session, { publicUrl: publicUrl(), project });
}
