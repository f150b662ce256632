/** Validates the header of a tar's member, and tracks the names that an archive has made. Names are byte strings. */

import { posix } from "node:path";
import { shownText } from "../../../base/tar/byte-string.ts";
import type { TarType } from "../../../base/tar/header.ts";
import type { ReadMember } from "../../../base/tar/reader.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { FileOwner } from "../../../core/ports/runtime.ts";

const latestTime = 8_640_000_000_000_000;

export function kindOf(member: ReadMember): TarType {
  // Before POSIX a directory was a file whose name ended in a slash.
  if (member.type === "file" && member.name.endsWith("/")) return "directory";
  if (!member.type) throw refusal(member.name, "its type is not supported");
  return member.type;
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

export function ownerOf({ name, uid, gid }: Pick<ReadMember, "name" | "uid" | "gid">): FileOwner {
  // A sandbox has this many user ids; a higher one could not be shown in it.
  const fits = (id: number) => Number.isInteger(id) && id >= 0 && id <= 65_535;
  if (!fits(uid) || !fits(gid)) throw refusal(name, "its owner is not between 0 and 65535");
  return { uid, gid };
}

/** in ms; a time out of range is clamped to what a file can have */
export function timeOf({ modifiedAt }: Pick<ReadMember, "modifiedAt">): number {
  return modifiedAt > 0 ? Math.floor(Math.min(modifiedAt, latestTime)) : 0;
}

export function refusal(member: string, why: string): SandkeepError {
  return new SandkeepError("invalid", `Cannot extract "${shownText(member.slice(0, 300))}": ${why}`);
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
