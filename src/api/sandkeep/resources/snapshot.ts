/** A snapshot: the files of a session at a moment. */

import { z } from "zod";
import { nameOfBase } from "../../../core/model/image.ts";
import type { Snapshot } from "../../../core/model/sandbox.ts";
import { bytes, duration, time } from "./values.ts";

export const snapshotResource = z
  .object({
    id: z.string(),
    name: z.string().nullable(),
    sandbox: z.string().meta({ description: "Name of its sandbox" }),
    sandboxId: z.string(),
    sessionId: z.string(),
    projectId: z.string(),
    parentId: z.string().nullable().meta({ description: "The snapshot that its session started from" }),
    image: z.string().meta({ description: "Name of the image that its sandbox began with" }),
    state: z.enum(["created", "deleted", "failed"]),
    method: z.enum(["manual", "automatic"]),
    size: bytes,
    region: z.string(),
    createdAt: time,
    lastUsedAt: time,
    expiration: duration.meta({ description: "Milliseconds after its last use; 0 for ever" }),
    expiresAt: time.nullable(),
  })
  .meta({ id: "Snapshot" });

export function printSnapshot(snapshot: Snapshot): z.input<typeof snapshotResource> {
  return {
    id: snapshot.id,
    name: snapshot.name ?? null,
    sandbox: snapshot.sandboxName,
    sandboxId: snapshot.sandboxId,
    sessionId: snapshot.sessionId,
    projectId: snapshot.projectId,
    parentId: snapshot.parentId ?? null,
    image: nameOfBase(snapshot.base),
    state: snapshot.state,
    method: snapshot.method,
    size: snapshot.sizeBytes,
    region: snapshot.region,
    createdAt: snapshot.createdAt,
    lastUsedAt: snapshot.lastUsedAt,
    expiration: snapshot.expiration,
    expiresAt: snapshot.expiresAt ?? null,
  };
}
