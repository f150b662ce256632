/** A drive: a durable volume that sandboxes mount. */

import { z } from "zod";
import type { Drive } from "../../../core/model/sandbox.ts";
import { bytes, time } from "./values.ts";

export const driveResource = z
  .object({
    id: z.string(),
    name: z.string().meta({ description: "Unique in its project" }),
    projectId: z.string(),
    region: z.string(),
    maxSize: bytes,
    parentId: z.string().nullable().meta({ description: "The drive that it is a fork of" }),
    sessionId: z.string().nullable().meta({ description: "The session that has it mounted for writing" }),
    sandbox: z.string().nullable().meta({ description: "Name of that session's sandbox" }),
    createdAt: time,
    updatedAt: time,
  })
  .meta({ id: "Drive" });

export function printDrive(drive: Drive): z.input<typeof driveResource> {
  return {
    id: drive.id,
    name: drive.name,
    projectId: drive.projectId,
    region: drive.region,
    maxSize: drive.maxSizeBytes,
    parentId: drive.parentId ?? null,
    sessionId: drive.sessionId ?? null,
    sandbox: drive.sandboxName ?? null,
    createdAt: drive.createdAt,
    updatedAt: drive.updatedAt,
  };
}
