/**
 * The lifecycle of a sandbox on E2B's API: timeouts, pause, resume and fork. A pause keeps memory and files, and programs
 * go on at the resume. Without memory it is a stop that keeps the files.
 */

import type { Hono } from "hono";
import type { Booted, Resumed } from "../../../core/sandboxes/sandboxes.ts";
import { isAsleep } from "../../../core/sessions/states.ts";
import { json } from "../../kit/http.ts";
import { Refusal } from "../../kit/refusal.ts";
import { noSandbox, refusalOf } from "../errors.ts";
import { bodyOf, type Dialect, type E2bContext, type Env, nothing, queryOf, sandboxOf } from "../request.ts";
import * as wire from "../wire.ts";
import { accessTo } from "./sandboxes.ts";

/** default timeout in seconds, for each generation of clients */
const usualTime = { connect: 300, old: 15 };

export function lifecycleRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  for (const path of ["/sandboxes/:id/connect", "/v2/sandboxes/:id/connect"]) {
    app.post(path, async (c) => {
      queryOf(c, schemas.emptyQuery);
      const { timeout = usualTime.connect, memory } = await bodyOf(c, dialect, schemas.connectBody);
      const { resumed, ...booted } = await running(c, timeout * 1000, memory);
      return json(wire.sandbox(booted, accessTo(dialect, booted, c.get("owner"))), resumed ? 201 : 200);
    });
  }

  app.post("/sandboxes/:id/resume", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { timeout = usualTime.old, autoPause, memory } = await bodyOf(c, dialect, schemas.resumeBody);
    const { sandbox, session } = await sandboxOf(c, dialect);
    if (!isAsleep(session.state)) throw new Refusal(409, "Cannot resume the sandbox: it runs already");
    if (autoPause !== undefined && autoPause !== sandbox.persistent) {
      const changes = { persistent: autoPause, onTimeout: autoPause ? ("pause" as const) : undefined };
      await core.sandboxes.update(c.get("owner"), sandbox.name, changes);
    }
    const booted = await running(c, timeout * 1000, memory);
    return json(wire.sandbox(booted, accessTo(dialect, booted, c.get("owner"))), 201);
  });

  app.post("/sandboxes/:id/pause", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { memory = true } = await bodyOf(c, dialect, schemas.pauseBody);
    const { session } = await sandboxOf(c, dialect);
    if (isAsleep(session.state)) throw new Refusal(409, "Cannot pause the sandbox: it is paused already");
    if (memory) await core.sessions.pause(c.get("owner"), session.id);
    else await core.sessions.snapshot(c.get("owner"), session.id);
    return nothing();
  });

  app.post("/sandboxes/:id/timeout", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { timeout } = await bodyOf(c, dialect, schemas.timeoutBody);
    const { session } = await awake(c);
    await core.sessions.endIn(c.get("owner"), session.id, timeout * 1000);
    return nothing();
  });

  app.post("/sandboxes/:id/refreshes", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { duration = usualTime.old } = await bodyOf(c, dialect, schemas.refreshBody);
    const { session } = await awake(c);
    const longer = Math.max(usualTime.old, duration) * 1000;
    await core.sessions.endIn(c.get("owner"), session.id, longer, { later: true });
    return nothing();
  });

  // All copies show the same moment. A copy that fails does not undo the others.
  app.post("/sandboxes/:id/fork", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { timeout = usualTime.old, count = 1 } = await bodyOf(c, dialect, schemas.forkBody);
    const { sandbox } = await sandboxOf(c, dialect);
    const owner = c.get("owner");
    const changes = { timeout: timeout * 1000 };
    const first = await core.sandboxes.branch(owner, sandbox.name, changes);
    const others = Array.from({ length: count - 1 }, () => core.sandboxes.fork(owner, sandbox.name, changes));
    const results = await Promise.allSettled([first, ...others]);
    return json(
      results.map((result) => {
        if (result.status === "fulfilled") {
          return { sandbox: wire.sandbox(result.value, accessTo(dialect, result.value, owner)) };
        }
        const { status: code, message } = refusalOf(result.reason);
        return { error: { code, message } };
      }),
      201,
    );
  });

  /** the running sandbox, with at least this time left */
  async function running(c: E2bContext, time: number, memory?: boolean): Promise<Resumed> {
    const { sandbox } = await sandboxOf(c, dialect);
    const booted = await core.sandboxes.resume(c.get("owner"), sandbox.name, { timeout: time, memory });
    if (booted.resumed) return booted;
    const session = await core.sessions.endIn(c.get("owner"), booted.session.id, time, { later: true });
    return { ...booted, session };
  }

  /** the sandbox, which must be running: for this vendor a paused sandbox has no timeout */
  async function awake(c: E2bContext): Promise<Booted> {
    const booted = await sandboxOf(c, dialect);
    if (isAsleep(booted.session.state)) throw noSandbox(c.req.param("id") ?? "");
    return booted;
  }
}
