/**
 * A guest's description of one file (ENTRY frame) and of one change (CHANGED frame); guest/files/files.c has the bytes.
 */

import { posix } from "node:path";
import type { FileChange, FileInfo, FileType } from "../../../core/ports/runtime.ts";
import { FrameReader, WireError } from "../../../protocols/guest-frames.ts";

export type EntryType =
  | "file"
  | "directory"
  | "symlink"
  | "fifo"
  | "socket"
  | "character-device"
  | "block-device"
  /** another name of an earlier file; `target` is that file's path */
  | "link";

export interface Entry {
  /** a name (list), a path relative to the start of a walk ("" for the start itself), or empty (stat) */
  path: string;
  type: EntryType;
  size: number;
  /** permission bits */
  mode: number;
  uid: number;
  gid: number;
  modifiedAt: number;
  /** neither is there from an agent of an earlier version */
  accessedAt?: number;
  changedAt?: number;
  links: number;
  major: number;
  minor: number;
  /** target of a symlink or link, else empty */
  target: string;
  attributes: Attribute[];
}

/** an extended attribute */
export interface Attribute {
  name: string;
  value: Buffer;
}

/** with "latin1", names are byte strings, so that names which are no text stay what they are */
export function decodeEntry(payload: Buffer, as: "utf8" | "latin1" = "utf8"): Entry {
  const reader = new FrameReader(payload);
  const entry: Entry = {
    path: reader.str(as),
    type: pick(types, reader.u8()),
    size: reader.u64(),
    mode: reader.u32(),
    uid: reader.u32(),
    gid: reader.u32(),
    modifiedAt: reader.u64(),
    links: reader.u32(),
    major: reader.u32(),
    minor: reader.u32(),
    target: reader.str(as),
    attributes: [],
  };
  const count = reader.u16();
  for (let i = 0; i < count; i++) entry.attributes.push({ name: reader.str(as), value: reader.bytes() });
  if (!reader.isEmpty) Object.assign(entry, { accessedAt: reader.u64(), changedAt: reader.u64() });
  reader.done();
  return entry;
}

/** the entry as the core's type */
export function infoOf(entry: Entry, path: string): FileInfo {
  return {
    name: posix.basename(path),
    path,
    type: fileTypes[entry.type],
    size: entry.size,
    mode: entry.mode,
    uid: entry.uid,
    gid: entry.gid,
    modifiedAt: entry.modifiedAt,
    accessedAt: entry.accessedAt ?? entry.modifiedAt,
    changedAt: entry.changedAt ?? entry.modifiedAt,
    ...(entry.type === "symlink" && { target: entry.target }),
  };
}

export function decodeChange(payload: Buffer): FileChange {
  const reader = new FrameReader(payload);
  const kind = pick(changes, reader.u8());
  const directory = reader.u8() !== 0;
  const path = reader.str();
  const to = reader.str();
  reader.done();
  return { kind, path, directory, ...(to !== "" && { to }) };
}

// The index plus 1 is the number on the wire.
const types = [
  "file",
  "directory",
  "symlink",
  "fifo",
  "socket",
  "character-device",
  "block-device",
  "link",
] as const satisfies EntryType[];
const changes = ["created", "written", "removed", "moved", "metadata"] as const satisfies FileChange["kind"][];

const fileTypes: Record<EntryType, FileType> = {
  file: "file",
  directory: "directory",
  symlink: "symlink",
  fifo: "fifo",
  socket: "socket",
  "character-device": "device",
  "block-device": "device",
  link: "file",
};

function pick<T>(from: readonly T[], number: number): T {
  const value = from[number - 1];
  if (value === undefined) throw new WireError(`A frame holds ${number} where 1 to ${from.length} may be`);
  return value;
}
