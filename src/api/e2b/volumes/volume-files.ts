/**
 * The files of a volume on E2B's API, whether or not a sandbox uses it. A request carries the volume's own token, which
 * has the permissions of the API key that it was made with.
 */

import { posix } from "node:path";
import { Hono } from "hono";
import { within } from "../../../base/concurrency/waits.ts";
import type { OpenDrive } from "../../../core/drives/drives.ts";
import { isSandkeepError } from "../../../core/model/errors.ts";
import type { FileInfo } from "../../../core/ports/runtime.ts";
import { bearerOf, requireRead } from "../../kit/authentication.ts";
import { abortWhenEnded, bodyBytes, byteBody, json } from "../../kit/http.ts";
import { ids } from "../../kit/ids.ts";
import { Refusal } from "../../kit/refusal.ts";
import { ownerOfToken } from "../access/tokens.ts";
import { errorResponse } from "../errors.ts";
import { bodyOf, type Dialect, type E2bContext, type Env, nothing, queryOf } from "../request.ts";
import * as wire from "../wire.ts";

/** user id that owns new files by default: the plain user of every sandbox */
const plainUser = 1000;
const mostEntries = 10_000;
/** ms for which a client may take nothing of a file, or send nothing: a machine is held for it meanwhile */
const patience = 60_000;

export function volumeFiles(dialect: Dialect): Hono<Env> {
  const { core, schemas, logError } = dialect;
  const app = new Hono<Env>({ strict: false });
  app.onError((error) => contentError(error, logError));
  app.notFound(() => contentError(new Refusal(404, "There is nothing at this address"), logError));
  app.use("/volumecontent/:id/*", async (c, next) => {
    const owner = await ownerOfToken(dialect, c.req.param("id"), bearerOf(c.req.raw));
    abortWhenEnded(c.req.raw, owner.ended);
    requireRead(owner, c.req);
    c.set("owner", owner);
    await next();
  });

  app.get("/volumecontent/:id/path", async (c) => {
    const { path } = queryOf(c, schemas.volumePathQuery);
    return json(await using(c, path, (at) => at.stat()));
  });

  app.patch("/volumecontent/:id/path", async (c) => {
    const { path } = queryOf(c, schemas.volumePathQuery);
    const changes = await bodyOf(c, dialect, schemas.volumeOwnerBody);
    return json(await changing(c, path, async (at) => at.own(changes)));
  });

  app.delete("/volumecontent/:id/path", async (c) => {
    const { path } = queryOf(c, schemas.volumePathQuery);
    await changing(c, path, async (at) => {
      if (at.inside === "") throw new Refusal(400, "Cannot remove the volume itself");
      await at.stat();
      await at.files.remove(at.path, { recursive: true });
    });
    return nothing();
  });

  app.get("/volumecontent/:id/dir", async (c) => {
    const { path, depth } = queryOf(c, schemas.volumeListQuery);
    return json(await using(c, path, (at) => at.list(depth)));
  });

  app.post("/volumecontent/:id/dir", async (c) => {
    const { path, force, ...owner } = queryOf(c, schemas.volumeWriteQuery);
    const made = await changing(c, path, async (at) => {
      const type = await at.type();
      if (type !== undefined && !(force && type === "directory")) throw taken(path);
      const { uid = plainUser, gid = plainUser } = owner;
      // Directories on the way belong to the same user.
      await at.files.mkdir(at.path, { recursive: force, owner: { uid, gid } });
      return at.own(type ? owner : { ...owner, uid, gid });
    });
    return json(made, 201);
  });

  app.get("/volumecontent/:id/file", async (c) => {
    const { path } = queryOf(c, schemas.volumePathQuery);
    const drive = await openDrive(c, false);
    const bytes = closing(drive, path);
    // Read the first bytes now: if the file cannot be opened, the status can still say so.
    const first = await told(path, bytes.next());
    return new Response(byteBody({ bytes, first, logError, connection: c.env, patience }), {
      headers: { "content-type": "application/octet-stream" },
    });
  });

  app.put("/volumecontent/:id/file", async (c) => {
    const { path, force, ...owner } = queryOf(c, schemas.volumeWriteQuery);
    const written = await changing(c, path, async (at) => {
      const type = await at.type();
      if (at.inside === "" || (type !== undefined && type !== "file") || (type && !force)) throw taken(path);
      await at.files.write(at.path, prompt(bodyBytes(c.req.raw)));
      return at.own(type ? owner : { uid: plainUser, gid: plainUser, ...owner });
    });
    return json(written, 201);
  });

  return app;

  function changing<T>(c: E2bContext, path: string, work: (at: Place) => Promise<T>): Promise<T> {
    return using(c, path, work, true);
  }

  async function using<T>(c: E2bContext, path: string, work: (at: Place) => Promise<T>, write = false): Promise<T> {
    const drive = await openDrive(c, write);
    try {
      return await told(path, work(await placeIn(drive, path)));
    } finally {
      await drive.close();
    }
  }

  async function openDrive(c: E2bContext, write: boolean): Promise<OpenDrive> {
    const id = c.req.param("id") ?? "";
    if (!ids.drive.test(id)) throw new Refusal(404, `Volume "${id.slice(0, 128)}" not found`);
    return core.drives.open(c.get("owner"), id, { write, signal: c.req.raw.signal });
  }

  async function* closing(drive: OpenDrive, path: string): AsyncGenerator<Uint8Array> {
    try {
      const at = await placeIn(drive, path);
      const { type } = await drive.files.stat(at.path);
      if (type !== "file") throw new Refusal(400, `Cannot read "${path}": it is a ${type}`);
      yield* drive.files.read(at.path) as AsyncIterable<Uint8Array>; // a stream of bytes, which Node types as any
    } finally {
      await drive.close();
    }
  }
}

/** on these routes alone, `code` is a text */
function contentError(error: unknown, logError: (error: unknown) => void): Response {
  const isToken = isSandkeepError(error, "unauthenticated");
  const reason = isToken ? new Refusal(401, "Invalid volume token: it is missing, or of another volume") : error;
  return errorResponse(reason, logError, String);
}

interface Owned {
  uid?: number | undefined;
  gid?: number | undefined;
  mode?: number | undefined;
}

/** A path in an open volume. */
interface Place {
  files: OpenDrive["files"];
  /** absolute path in the machine that has the volume */
  path: string;
  /** path from the volume's root */
  inside: string;
  type(): Promise<FileInfo["type"] | undefined>;
  stat(): Promise<object>;
  list(depth: number): Promise<object[]>;
  /** changes owner and permissions; returns the new metadata */
  own(owner: Owned): Promise<object>;
}

async function placeIn({ files, root }: OpenDrive, given: string): Promise<Place> {
  const inside = posix.normalize(`/${given}`).replace(/\/$/, "");
  const path = `${root}${inside}`;
  const info = (at: string) => files.stat(`${root}${at}`, { follow: false });
  // A symlink in the path could lead out of the volume.
  const folders = inside.split("/").slice(1, -1);
  for (const [index] of folders.entries()) {
    const folder = `/${folders.slice(0, index + 1).join("/")}`;
    if ((await orNothing(info(folder)))?.type === "symlink") {
      throw new Refusal(400, `Cannot use "${given}": "${folder}" is a link`);
    }
  }
  const stat = async () => print(await info(inside), inside);
  return {
    files,
    path,
    inside,
    stat,
    type: async () => (await orNothing(info(inside)))?.type,
    async list(depth) {
      const found: object[] = [];
      let folders = [inside];
      for (let level = 0; level < depth && folders.length > 0; level++) {
        const next: string[] = [];
        for (const folder of folders) {
          for (const entry of await files.list(`${root}${folder}`)) {
            const at = `${folder}/${entry.name}`;
            if (found.length >= mostEntries) throw new Refusal(400, `Cannot list "${given}": it has too many entries`);
            found.push(print(entry, at));
            if (entry.type === "directory") next.push(at);
          }
        }
        folders = next;
      }
      return found;
    },
    async own({ uid, gid, mode }) {
      const before = await info(inside);
      if (before.type === "symlink") throw new Refusal(400, `Cannot change "${given}": it is a link`);
      if (uid !== undefined || gid !== undefined) await files.chown(path, uid ?? before.uid, gid ?? before.gid);
      if (mode !== undefined) await files.chmod(path, mode);
      return stat();
    },
  };
}

/** a client that sends nothing for too long ends its upload with an error */
async function* prompt(bytes: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    for (;;) {
      const next = bytes.next();
      const result = await within(next, patience);
      if (!result) {
        next.catch(() => undefined);
        throw new Refusal(408, `Cannot continue the upload: no data came for ${patience / 1000} s`);
      }
      if (result.done) return;
      yield result.value;
    }
  } finally {
    // It may wait for bytes that never come.
    void bytes.return(undefined).catch(() => undefined);
  }
}

function print(info: FileInfo, path: string): object {
  const { type, size, mode, uid, gid, modifiedAt, accessedAt = modifiedAt, changedAt = modifiedAt, target } = info;
  const known = ["file", "directory", "symlink"].includes(type) ? type : "unknown";
  const name = posix.basename(path) || "/";
  const facts = { name, type: known, path: path || "/", size, mode, uid, gid };
  const times = { atime: wire.time(accessedAt), mtime: wire.time(modifiedAt), ctime: wire.time(changedAt) };
  return { ...facts, ...times, ...(target !== undefined && { target }) };
}

async function orNothing(info: Promise<FileInfo>): Promise<FileInfo | undefined> {
  return info.catch((error: unknown) => {
    if (isSandkeepError(error, "not-found")) return undefined;
    throw error;
  });
}

async function told<T>(path: string, work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    throw isSandkeepError(error, "not-found") ? new Refusal(404, `Path "${path.slice(0, 256)}" not found`) : error;
  });
}

function taken(path: string): Refusal {
  return new Refusal(409, `Cannot write "${path.slice(0, 256)}": something is there, or it is the volume itself`);
}
