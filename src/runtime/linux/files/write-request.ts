/** The fields of a WRITE request; guest/files/files.c documents them. */

import type { FrameWriter } from "../../../protocols/guest-frames.ts";

/** a text, or the bytes of a path that may be no text */
export type Path = string | Buffer;

export interface WriteRequest {
  /** permission bits of a new file; default 0o644 */
  mode?: number;
  parents?: boolean;
  append?: boolean;
  /** fail if it exists */
  exclusive?: boolean;
  /** replace anything but a directory with a new file */
  replace?: boolean;
  /** set `mode` also on a file that exists, and its setuid, setgid and sticky bits */
  exactMode?: boolean;
  owner?: { uid: number; gid: number };
  modifiedAt?: number;
}

const flags = { parents: 1, append: 2, exclusive: 4, replace: 8, exactMode: 16, owner: 32, modifiedAt: 64 } as const;

export function writeFields(frame: FrameWriter, path: Path, request: WriteRequest): FrameWriter {
  let bits = 0;
  for (const [name, bit] of Object.entries(flags)) if (request[name as keyof typeof flags]) bits |= bit;
  if (request.modifiedAt !== undefined) bits |= flags.modifiedAt;
  const { uid = 0, gid = 0 } = request.owner ?? {};
  const { mode = 0o644, modifiedAt = 0 } = request;
  return frame.str(path).u32(mode).u32(bits).u32(uid).u32(gid).u64(modifiedAt);
}
