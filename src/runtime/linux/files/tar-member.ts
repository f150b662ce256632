/** Parses and validates the header of a tar's member, and tracks the names that an archive has made. */

import { posix } from "node:path";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { FileOwner } from "../../../core/ports/runtime.ts";
import type { TarHeader } from "./tar.ts";

export type Kind = NonNullable<TarHeader["type"]>;

const latestTime = 8_640_000_000_000_000;

export function kindOf(header: TarHeader): Kind {
  // Before POSIX a directory was a file whose name ended in a slash.
  if (header.type === "file" && header.name.endsWith("/")) return "directory";
  if (Object.keys(header.pax ?? {}).some((key) => key.startsWith("GNU.sparse."))) {
    throw refusal(header.name, "sparse files are not supported");
  }
  if (header.type === "contiguous-file") return "file";
  if (!header.type) throw refusal(header.name, "its type is not supported");
  return header.type;
}

/** the name relative to the target, "" for the target itself; `member` is the name for errors */
export function cleanName(name: string, member: string): string {
  if (name.startsWith("/")) throw refusal(member, "its path is absolute");
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw refusal(member, 'its path has ".." in it');
  return parts.join("/");
}

export function parentOf(name: string): string {
  const parent = posix.dirname(name);
  return parent === "." ? "" : parent;
}

export function modeOf(header: TarHeader): number {
  return (header.mode ?? 0o644) & 0o7777;
}

export function ownerOf(header: TarHeader): FileOwner {
  const ids = { uid: Number(header.pax?.uid ?? header.uid ?? 0), gid: Number(header.pax?.gid ?? header.gid ?? 0) };
  // A sandbox has this many user ids; a higher one could not be shown in it.
  const fits = (id: number) => Number.isInteger(id) && id >= 0 && id <= 65_535;
  if (!fits(ids.uid) || !fits(ids.gid)) throw refusal(header.name, "its owner is not between 0 and 65535");
  return ids;
}

/** in ms; a time out of range is clamped to what a file can have */
export function timeOf(header: TarHeader): number {
  const ms = header.pax?.mtime === undefined ? header.mtime?.getTime() : Number(header.pax.mtime) * 1000;
  return ms !== undefined && ms > 0 ? Math.floor(Math.min(ms, latestTime)) : 0;
}

export function refusal(member: string, why: string): SandkeepError {
  return new SandkeepError("invalid", `Cannot extract "${member.slice(0, 300)}": ${why}`);
}

/** Names that an archive has made, with all their parent directories. */
export class MadeNames {
  readonly #names = new Set([""]);

  add(name: string): void {
    for (let at = name; !this.#names.has(at); at = parentOf(at)) this.#names.add(at);
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }
}
