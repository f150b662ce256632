/** layer.json: the record of a layer, beside its files. */

import { randomBytes } from "node:crypto";
import { z } from "zod";

/** Where a layer is filled, for another thread: a directory, and the socket on which file sessions begin, if there is one. */
export interface FillPlace {
  directory: string;
  socket: string | undefined;
}

export interface LayerInfo {
  id: string;
  createdAt: number;
  /** bytes on the disk when it was published */
  size: number;
  /** its path, if it is not in the store */
  path?: string | undefined;
  /** the machine that the volume belonged to */
  origin?: string | undefined;
  /** the record of the snapshot that it was made for, from which that can be restored: see snapshots.ts */
  snapshot?: unknown;
  /** the boot of the host in which it was made */
  bootId?: string | undefined;
}

/** a layer's description by the code that turns a machine's volume into one */
export type MadeLayer = Omit<LayerInfo, "createdAt" | "path" | "bootId">;

export const layerFile = z.object({
  id: z.string(),
  createdAt: z.number(),
  size: z.number(),
  path: z.string().startsWith("/").optional(),
  origin: z.string().optional(),
  snapshot: z.unknown().optional(),
  bootId: z.string().optional(),
});

export function isLayerId(id: string): boolean {
  return /^[a-z0-9][a-z0-9-]{0,99}$/.test(id);
}

export function newLayerId(): string {
  return randomBytes(14).toString("hex");
}
