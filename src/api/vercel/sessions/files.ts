/** Files on Vercel's wire: read one, write many as a tar, make a directory. */

import type { Hono } from "hono";
import { resolvePath } from "../../../core/files/files.ts";
import { type ErrorCode, isSandkeepError, type SandkeepError } from "../../../core/model/errors.ts";
import type { Caller } from "../../../core/model/sandbox.ts";
import { attachment } from "../../kit/attachment.ts";
import { bodyBytes, byteBody, hasBody, json } from "../../kit/http.ts";
import { badRequest, notFound, VercelError } from "../errors.ts";
import { bodyOf, callerOf, type Dialect, type Env, idOf, queryOf } from "../request.ts";
import { currentWords, type SessionWords } from "./session-words.ts";

export function fileRoutes(app: Hono<Env>, dialect: Dialect, { session }: SessionWords = currentWords): void {
  const { core, schemas } = dialect;
  const fs = `${session}/fs`;

  app.post(`${fs}/read`, async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const { value } = await bodyOf(c, dialect, schemas.readBody);
    const place: Place = { sessionId: idOf(c, "sessionId"), path: value.path, cwd: value.cwd };
    return withFileErrors(dialect, caller, place, "reading file", async () => {
      const file = await core.files.read(caller, place.sessionId, place.path, place.cwd);
      const bytes = file.iterator({ destroyOnReturn: true });
      // Read the first bytes now: if the file cannot be opened, the status can still say so.
      const first = await bytes.next();
      const { logError } = dialect;
      return new Response(byteBody({ bytes, first, logError, connection: c.env }), {
        headers: { "content-type": "application/octet-stream", "content-disposition": attachment(place.path) },
      });
    });
  });

  app.post(`${fs}/write`, async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const directory = c.req.header("x-cwd");
    if (directory !== undefined && (directory === "" || directory.length > 4096)) {
      throw badRequest("Invalid request: `x-cwd` should be a path.");
    }
    if (!hasBody(c.req.raw)) throw badRequest("Invalid request: the body should be a tar file, compressed with gzip.");
    const place: Place = { sessionId: idOf(c, "sessionId"), path: directory ?? "." };
    return withFileErrors(dialect, caller, place, "writing files", async () => {
      await core.files.extract(caller, place.sessionId, directory, bodyBytes(c.req.raw));
      return json({});
    });
  });

  app.post(`${fs}/mkdir`, async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const { value } = await bodyOf(c, dialect, schemas.mkdirBody);
    const place: Place = { sessionId: idOf(c, "sessionId"), path: value.path, cwd: value.cwd };
    return withFileErrors(dialect, caller, place, "creating directory", async () => {
      await core.files.mkdir(caller, place.sessionId, value.path, { cwd: value.cwd, recursive: value.recursive });
      return json({});
    });
  });
}

/** the file or directory of a request, as the caller named it */
interface Place {
  sessionId: string;
  path: string;
  cwd?: string | undefined;
}

type Verb = "reading file" | "writing files" | "creating directory";

/** the kernel's message for each error code that the file system causes */
const kernelWords: Partial<Record<ErrorCode, string>> = {
  exists: "File exists",
  "not-found": "No such file or directory",
  forbidden: "Permission denied",
  limit: "No space left on device",
};

/** does the work; words errors of the file system as the hosted service does */
async function withFileErrors(
  dialect: Dialect,
  caller: Caller,
  place: Place,
  verb: Verb,
  work: () => Promise<Response>,
): Promise<Response> {
  try {
    return await work();
  } catch (error) {
    if (!isSandkeepError(error) || !isFileError(error)) throw error;
    // If the session itself does not exist, this throws that error instead.
    const { cwd } = await dialect.core.sessions.get(caller, place.sessionId);
    if (error.code === "not-found" && verb === "reading file") throw notFound("File not found.");
    const words = verb === "writing files" ? undefined : kernelWords[error.code];
    // Like the hosted service, do not say which directory of the path is missing.
    const about = error.code === "not-found" ? "" : `${resolvePath(cwd, place.cwd, place.path)}: `;
    const message = words === undefined ? error.message : `error ${verb}: ${about}${words}`;
    throw new VercelError(400, "file_error", message, { cause: error });
  }
}

/** whether the error comes from the file system: those are never about a session, a user or a key */
function isFileError({ code, about }: SandkeepError): boolean {
  if (about) return false;
  return code in kernelWords || code === "invalid" || code === "conflict" || code === "unsupported";
}
