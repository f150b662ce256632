/** Volumes on InstaVM's wire, which are drives of the core, and their files, whether or not a machine uses them. */

import { posix } from "node:path";
import type { Hono } from "hono";
import type { OpenDrive } from "../../core/drives/drives.ts";
import { isSandkeepError } from "../../core/model/errors.ts";
import type { Drive } from "../../core/model/sandbox.ts";
import type { FileInfo } from "../../core/ports/runtime.ts";
import { byteBody, json } from "../kit/http.ts";
import { Refusal } from "../kit/refusal.ts";
import { notOffered } from "./errors.ts";
import { readable } from "./files.ts";
import {
  bodyOf,
  type Dialect,
  type Env,
  formOf,
  type InstavmContext,
  idOf,
  orNotFound,
  ownerOf,
  queryOf,
} from "./request.ts";
import * as wire from "./wire.ts";

export function volumeRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas, logError } = dialect;
  const volumeIn = (c: InstavmContext): Promise<Drive> =>
    orNotFound(core.drives.byId(ownerOf(c), idOf(c, "Volume")), "Volume");

  app.post("/v1/volumes", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { name, quota_bytes: quota } = await bodyOf(c, schemas.volumeBody);
    const options = { maxSizeBytes: quota ?? undefined };
    const { drive, created } = await core.drives.getOrCreate(ownerOf(c), name, options);
    if (!created) throw new Refusal(409, `Cannot create the volume: there is one of the name "${name}"`);
    return json(wire.volume(drive), 201);
  });

  app.get("/v1/volumes", async (c) => {
    const { limit } = queryOf(c, schemas.volumesQuery);
    const { items } = await core.drives.list(ownerOf(c), { limit, order: "desc", sortBy: "createdAt" });
    return json(items.map(wire.volume));
  });

  app.get("/v1/volumes/:id", async (c) => {
    queryOf(c, schemas.volumeQuery);
    return json(wire.volume(await volumeIn(c)));
  });

  app.patch("/v1/volumes/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { name, quota_bytes: quota } = await bodyOf(c, schemas.volumeChanges);
    const drive = await volumeIn(c);
    if (name !== undefined && name !== drive.name) throw notOffered("another name for a volume is");
    return json(wire.volume(quota === undefined ? drive : await core.drives.resize(ownerOf(c), drive.id, quota)));
  });

  app.delete("/v1/volumes/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { id, name } = await volumeIn(c);
    await orNotFound(core.drives.delete(ownerOf(c), name), "Volume");
    return json({ message: "Volume deleted", volume_id: id });
  });

  app.get("/v1/volumes/:id/files", async (c) => {
    const { prefix, recursive, limit } = queryOf(c, schemas.volumeFilesQuery);
    const { id } = await volumeIn(c);
    const files = await using(c, id, (drive) => filesBelow(drive, prefix, recursive, limit));
    return json({ volume_id: id, files: files.map((file) => entry(file)) });
  });

  app.delete("/v1/volumes/:id/files", async (c) => {
    const { path } = queryOf(c, schemas.volumeFileQuery);
    const { id } = await volumeIn(c);
    const inside = placeOf(path);
    await changing(c, id, ({ files, root }) =>
      readable(path, () => files.remove(`${root}${inside}`, { recursive: true })),
    );
    return json({ message: "File deleted", volume_id: id, path: inside.slice(1) });
  });

  app.post("/v1/volumes/:id/files/upload", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { id } = await volumeIn(c);
    const { file, path, overwrite } = await formOf(c, schemas.volumeUploadForm);
    const inside = placeOf(path);
    const bytes = new Uint8Array(await file.arrayBuffer());
    await changing(c, id, async ({ files, root }) => {
      await requireNoLink(files, root, inside);
      if (!overwrite && (await isThere(files.stat(`${root}${inside}`)))) {
        throw new Refusal(409, `Cannot write "${path}": it is there, and overwrite is false`);
      }
      await readable(path, () => files.write(`${root}${inside}`, bytes, { parents: true }));
    });
    return json({ message: "File uploaded", volume_id: id, path: inside.slice(1), size: bytes.length });
  });

  app.get("/v1/volumes/:id/files/download", async (c) => {
    const { path } = queryOf(c, schemas.volumeFileQuery);
    const { id } = await volumeIn(c);
    const inside = placeOf(path);
    const drive = await core.drives.open(ownerOf(c), id, { signal: c.req.raw.signal });
    const bytes = closing(drive, `${drive.root}${inside}`);
    // Read the first bytes now: if the file cannot be opened, the status can still say so.
    const first = await readable(path, () => bytes.next());
    return new Response(byteBody({ bytes, first, logError, connection: c.env, patience: 60_000 }), {
      headers: { "content-type": "application/octet-stream" },
    });
  });

  const changing = <T>(c: InstavmContext, id: string, work: (drive: OpenDrive) => Promise<T>) =>
    using(c, id, work, { write: true });

  async function using<T>(
    c: InstavmContext,
    id: string,
    work: (drive: OpenDrive) => Promise<T>,
    options: { write?: boolean } = {},
  ): Promise<T> {
    const drive = await core.drives.open(ownerOf(c), id, { ...options, signal: c.req.raw.signal });
    try {
      return await work(drive);
    } finally {
      await drive.close();
    }
  }
}

/** an absolute path within a volume, which cannot lead above its root */
function placeOf(path: string): string {
  const place = posix.normalize(`/${path}`).replace(/\/$/, "");
  if (place === "") throw new Refusal(400, "Cannot use the path: it names the volume itself");
  return place;
}

async function* closing(drive: OpenDrive, path: string): AsyncGenerator<Uint8Array> {
  try {
    const { type } = await drive.files.stat(path);
    if (type !== "file") throw new Refusal(400, `Cannot download the path: it is a ${type}`);
    yield* drive.files.read(path) as AsyncIterable<Uint8Array>; // a stream of bytes, which Node types as any
  } finally {
    await drive.close();
  }
}

/** the files whose paths begin with the prefix, sorted by name in each folder */
async function filesBelow(
  { files, root }: OpenDrive,
  prefix: string,
  recursive: boolean,
  limit: number,
): Promise<FileInfo[]> {
  const start = posix.normalize(`/${prefix}`);
  const folder = start.endsWith("/") ? start : `${posix.dirname(start)}/`.replace("//", "/");
  const found: FileInfo[] = [];
  const folders = [folder];
  for (let next = folders.shift(); next !== undefined && found.length < limit; next = folders.shift()) {
    const inside = await files.list(`${root}${next}`.replace(/\/$/, "")).catch((error: unknown) => {
      if (isSandkeepError(error) && error.code !== "internal") return [];
      throw error;
    });
    for (const file of inside.toSorted((one, other) => (one.name < other.name ? -1 : 1))) {
      const path = `${next}${file.name}`;
      if (!path.startsWith(start)) continue;
      found.push({ ...file, path });
      if (recursive && file.type === "directory") folders.push(`${path}/`);
    }
  }
  return found.slice(0, limit);
}

function entry({ path, type, size, modifiedAt }: FileInfo): object {
  return { path: path.slice(1), type, size, modified_at: wire.time(modifiedAt) };
}

/** refuses a path through a symlink: the file would be written outside of the volume, and be lost */
async function requireNoLink(files: OpenDrive["files"], root: string, inside: string): Promise<void> {
  const names = inside.slice(1).split("/");
  for (const [index] of names.entries()) {
    const path = names.slice(0, index + 1).join("/");
    const type = await files.stat(`${root}/${path}`, { follow: false }).then(
      (info) => info.type,
      (error: unknown) => {
        if (isSandkeepError(error, "not-found")) return undefined;
        throw error;
      },
    );
    if (type === "symlink") throw new Refusal(400, `Cannot write "${inside.slice(1)}": "${path}" is a link`);
    if (type === undefined) return;
  }
}

async function isThere(stat: Promise<FileInfo>): Promise<boolean> {
  try {
    await stat;
    return true;
  } catch (error) {
    if (isSandkeepError(error, "not-found")) return false;
    throw error;
  }
}
