/**
 * Files that templates copy. A client asks for an address with its key, and sends the files there without one:
 *
 *   PUT /template-files/<hash>/<expiry>/<token>     hash: the client's own for the files; expiry: seconds since 1970
 *
 * The token stands for the API key that asked, and for this hash and expiry only.
 */

import { Hono } from "hono";
import type { Owner } from "../../../core/model/sandbox.ts";
import { requireRead } from "../../kit/authentication.ts";
import { bodyBytes, type Connection, parsed } from "../../kit/http.ts";
import { Refusal } from "../../kit/refusal.ts";
import { accessToken, ownerOfToken } from "../access/tokens.ts";
import { errorResponse } from "../errors.ts";
import type { Dialect } from "../request.ts";
import { filesHash } from "./schemas.ts";

/** how long an address is valid, in seconds */
const validity = 3600;

export function uploadUrl(dialect: Dialect, owner: Owner, hash: string): string {
  const expiry = Math.floor(dialect.clock() / 1000) + validity;
  return `${dialect.publicUrl()}/template-files/${hash}/${expiry}/${accessToken(dialect, subject(hash, expiry), owner)}`;
}

export function templateFiles(dialect: Dialect): Hono<{ Bindings: Connection }> {
  const { core, clock, logError } = dialect;
  const app = new Hono<{ Bindings: Connection }>({ strict: false });
  app.onError((error) => errorResponse(error, logError));
  app.notFound(() => errorResponse(new Refusal(404, "There is nothing at this address"), logError));
  app.put("/template-files/:hash/:expiry{[0-9]{1,12}}/:token", async (c) => {
    const hash = parsed(filesHash, c.req.param("hash"));
    const expiry = Number(c.req.param("expiry"));
    const owner = await ownerOfToken(dialect, subject(hash, expiry), c.req.param("token"));
    if (expiry * 1000 < clock()) throw new Refusal(401, "Cannot take the files: the address has expired");
    requireRead(owner, c.req);
    await core.builds.keepUpload(owner, hash, bodyBytes(c.req.raw), c.req.raw.signal);
    return new Response(null, { status: 200, headers: { "content-length": "0" } });
  });
  return app;
}

function subject(hash: string, expiry: number): string {
  return `files ${hash} ${expiry}`;
}
