/** Files of a session on InstaVM's wire: uploads one file as a form, downloads one as base64. */

import type { Hono } from "hono";
import { isSandkeepError } from "../../core/model/errors.ts";
import { json } from "../kit/http.ts";
import { Refusal } from "../kit/refusal.ts";
import { running } from "./executions.ts";
import { type Dialect, type Env, formOf, longestFile, ownerOf, queryOf, vmOfSession } from "./request.ts";

export function fileRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.post("/upload", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const owner = ownerOf(c);
    const { file, remote_path: path, session_id: id, recursive } = await formOf(c, schemas.uploadForm);
    const { sandbox, session } = await running(dialect, owner, id);
    const bytes = new Uint8Array(await file.arrayBuffer());
    await readable(path, async () => {
      if (recursive) await core.files.extract(owner, session.id, path, inParts([bytes]));
      else await core.files.write(owner, session.id, path, bytes, { parents: true });
    });
    return json({ message: "File uploaded", remote_path: path, size: bytes.length, session_id: sandbox.id });
  });

  app.post("/download", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const owner = ownerOf(c);
    const { filename, session_id: id } = await formOf(c, schemas.downloadForm);
    const { session } = await vmOfSession(dialect, owner, id);
    if (session.stoppedAt !== undefined) throw new Refusal(404, "Session has no VM: its files ended with it");
    const whole = { offset: 0, length: longestFile + 1 };
    const { data } = await readable(filename, () => core.files.readPart(owner, session.id, filename, whole));
    if (data.length > longestFile) {
      throw new Refusal(413, `Cannot download "${filename}": it is longer than ${longestFile} bytes`);
    }
    return json({ filename, content: data.toString("base64"), size: data.length });
  });
}

/** does the work; words a missing file differently from a missing session */
export async function readable<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (isSandkeepError(error, "not-found")) throw new Refusal(404, `File not found: "${path}"`);
    if (isSandkeepError(error, "limit")) throw new Refusal(400, error.message);
    throw error;
  }
}

async function* inParts(parts: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* parts;
}
