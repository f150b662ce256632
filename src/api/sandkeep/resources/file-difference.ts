/** A path whose file differs between two trees. */

import { z } from "zod";
import type { FileFacts, TreeChange } from "../../../core/ports/tree-diff.ts";
import { fileType } from "./file.ts";
import { bytes, time } from "./values.ts";

const facts = z
  .object({
    type: fileType,
    size: bytes,
    mode: z.int().meta({ description: "Permission bits" }),
    uid: z.int(),
    gid: z.int(),
    modifiedAt: z.number().meta(time.meta() ?? {}),
    target: z.string().nullable().meta({ description: "The path that a symlink contains" }),
  })
  .meta({ id: "FileFacts" });

export const fileDifference = z
  .object({
    path: z.string(),
    change: z.enum(["added", "changed", "removed"]),
    before: facts.nullable().meta({ description: "Null if it was added, or was a file of the host that images share" }),
    after: facts.nullable().meta({ description: "Null if it was removed" }),
  })
  .meta({ id: "FileDifference" });

export function printDifference({ path, change, before, after }: TreeChange): z.input<typeof fileDifference> {
  return { path, change, before: printFacts(before), after: printFacts(after) };
}

function printFacts(file: FileFacts | undefined): z.input<typeof facts> | null {
  if (!file) return null;
  const { type, size, mode, uid, gid, modifiedAt, target = null } = file;
  return { type, size, mode, uid, gid, modifiedAt, target };
}
