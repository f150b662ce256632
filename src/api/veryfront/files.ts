/** Files on Veryfront's wire: read one, write several. Relative paths begin at the workspace. */

import type { Hono } from "hono";
import { isSandkeepError } from "../../core/model/errors.ts";
import { byteBody, json } from "../kit/http.ts";
import { Refusal } from "../kit/refusal.ts";
import { bodyOf, type Dialect, type Env, queryOf, sessionOf } from "./request.ts";
import { filesBody } from "./schemas.ts";

export function fileRoutes(app: Hono<Env>, { core, schemas, logError }: Dialect): void {
  for (const base of ["/sandbox-sessions/:session", "/veryfront/:session"]) {
    app.get(`${base}/file`, async (c) => {
      const { path } = queryOf(c, schemas.fileQuery);
      const file = await core.files.read(c.get("caller"), sessionOf(c), path);
      const bytes = file.iterator({ destroyOnReturn: true });
      // Read the first bytes now: if the file cannot be opened, the status can still say so.
      const first = await bytes.next();
      return new Response(byteBody({ bytes, first, logError, connection: c.env }), {
        headers: { "content-type": "application/octet-stream" },
      });
    });

    // Clients check only the status, so one file that cannot be written fails the request, with an error that names it.
    app.post(`${base}/files`, async (c) => {
      queryOf(c, schemas.emptyQuery);
      const { files } = await bodyOf(c, schemas.filesBody, filesBody);
      const id = sessionOf(c);
      await core.sessions.running(c.get("caller"), id);
      for (const { path, content } of files) {
        await core.files.write(c.get("caller"), id, path, Buffer.from(content), { parents: true }).catch(fullDisk);
      }
      return json({ results: files.map(({ path }) => ({ path, ok: true, status: "written", error: null })) });
    });
  }
}

/** a full disk is a 413, because a 429, as for other limits, would make clients retry soon */
function fullDisk(error: unknown): never {
  throw isSandkeepError(error, "limit") ? new Refusal(413, error.message, { cause: error }) : error;
}
