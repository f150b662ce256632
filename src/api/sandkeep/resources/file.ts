/** A file of a sandbox, as its own kernel describes it. */

import { z } from "zod";
import type { UserFile } from "../../../core/files/user-files.ts";
import { bytes, time } from "./values.ts";

export const fileType = z.enum(["file", "directory", "symlink", "fifo", "socket", "device"]);

export const fileResource = z
  .object({
    name: z.string(),
    path: z.string(),
    type: fileType,
    size: bytes,
    mode: z.int().meta({ description: "Permission bits" }),
    uid: z.int(),
    gid: z.int(),
    owner: z.string(),
    group: z.string(),
    modifiedAt: z.number().meta(time.meta() ?? {}),
    target: z.string().nullable().meta({ description: "The path that a symlink contains" }),
    targetType: fileType.nullable(),
  })
  .meta({ id: "File" });

export function printFile(file: UserFile): z.input<typeof fileResource> {
  const { name, path, type, size, mode, uid, gid, owner, group, modifiedAt, target = null, targetType = null } = file;
  return { name, path, type, size, mode, uid, gid, owner, group, modifiedAt, target, targetType };
}

export const fileChange = z
  .object({
    kind: z.enum(["created", "written", "removed", "moved", "metadata"]),
    path: z.string(),
    to: z.string().nullable().meta({ description: "Where a moved file is now, if known" }),
    directory: z.boolean(),
  })
  .meta({ id: "FileChange" });
