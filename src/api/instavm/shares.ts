/**
 * Shares on InstaVM's wire: a port of a machine with a URL. Anyone who knows the URL of a public share can reach it. A
 * share that is not public has a URL too, but it leads nowhere until the share becomes public.
 */

import type { Hono } from "hono";
import type { Owner } from "../../core/model/sandbox.ts";
import { json } from "../kit/http.ts";
import { bodyOf, type Dialect, type Env, idOf, orNotFound, ownerOf, queryOf, vmOf, vmOfSession } from "./request.ts";
import * as wire from "./wire.ts";

export function shareRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas, limits } = dialect;

  app.post("/v1/shares", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { vm_id: vm, session_id: session, port, is_public: isPublic } = await bodyOf(c, schemas.shareBody);
    const owner = ownerOf(c);
    const { sandbox } = vm == null ? await vmOfSession(dialect, owner, session ?? "") : await vmOf(dialect, owner, vm);
    const most = limits.ports;
    const route = await orNotFound(core.routes.expose(owner, sandbox.name, port, { most, closed: !isPublic }), "VM");
    return answer(owner, route.subdomain);
  });

  app.get("/v1/shares/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    return answer(ownerOf(c), idOf(c, "Share"));
  });

  app.patch("/v1/shares/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { is_public: isPublic, revoke } = await bodyOf(c, schemas.shareChanges);
    const owner = ownerOf(c);
    const { sandbox, route } = await orNotFound(core.routes.find(owner, idOf(c, "Share")), "Share");
    if (revoke) {
      await core.routes.withdraw(owner, route.subdomain);
      return json({ message: "Share revoked", share_id: route.subdomain });
    }
    const closed = isPublic === undefined ? (route.closed ?? false) : !isPublic;
    await core.routes.expose(owner, sandbox.name, route.port, { most: limits.ports, closed });
    return answer(owner, route.subdomain);
  });

  app.delete("/v1/shares/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const id = idOf(c, "Share");
    await orNotFound(core.routes.withdraw(ownerOf(c), id), "Share");
    return json({ message: "Share revoked", share_id: id });
  });

  async function answer(owner: Owner, id: string): Promise<Response> {
    const { sandbox, route } = await orNotFound(core.routes.find(owner, id), "Share");
    return json(wire.share(route, sandbox, dialect.domain()));
  }
}
