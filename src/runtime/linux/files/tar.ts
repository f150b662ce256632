/** Packs a tree of a sandbox or a layer as a tar stream, and defines the form of a layer's special files in a tar. */

import { posix } from "node:path";
import { byteString } from "../../../base/tar/byte-string.ts";
import type { TarType } from "../../../base/tar/header.ts";
import { type NewMember, TarWriter } from "../../../base/tar/writer.ts";
import type { Attribute, Entry } from "./file-entry.ts";
import type { FileSession } from "./file-session.ts";

export interface ArchiveOptions {
  /**
   * A layer, for extractTar() with the same option: includes the directory itself, its whiteouts (character devices
   * 0/0) and extended attributes. Otherwise devices are left out, as sockets always are.
   */
  layer?: boolean;
  /** without `layer`: includes the extended attributes that are valid anywhere */
  attributes?: boolean;
  /** with `attributes`: leaves out what is mounted below */
  skipsMounts?: boolean;
  /** with `layer`: for other tools, from a complete layer; leaves out what only an overlay understands */
  oci?: boolean;
}

/**
 * The tar of a file (one member of its name) or of a directory's content (relative names). It is made as fast as it is
 * read, in constant memory. Names keep their bytes, also if these are not UTF-8.
 */
export async function* archiveTar(
  session: FileSession,
  path: string,
  options: ArchiveOptions = {},
): AsyncGenerator<Buffer> {
  const { layer = false, oci = false, attributes = layer, skipsMounts } = options;
  const output = new TarWriter();
  const walked = { contents: true, attributes, bytes: true, ...(skipsMounts && { skipsMounts }) };
  for await (const { entry, contents } of session.walk(path, walked)) {
    const member = memberOf(entry, path, layer && !oci);
    if (member && (entry.path !== "" || entry.type !== "directory" || layer)) {
      yield* output.member(member, contents, recordsOf(entry.attributes, oci || !layer));
    }
  }
  yield* output.end();
}

/** attributes that are valid on any system */
const plainAttribute = /^(user\..+|security\.capability)$/s;

const tarTypes: Partial<Record<Entry["type"], TarType>> = {
  file: "file",
  directory: "directory",
  symlink: "symlink",
  fifo: "fifo",
  link: "link",
  "character-device": "character-device",
};

/** the header of a member, or undefined if it is left out */
function memberOf(entry: Entry, path: string, withWhiteouts: boolean): NewMember | undefined {
  const type = tarTypes[entry.type];
  if (!type || (type === "symlink" && entry.target === "")) return undefined;
  const isWhiteout = type === "character-device" && entry.major === 0 && entry.minor === 0;
  if (type === "character-device" && !(withWhiteouts && isWhiteout)) return undefined;
  const { mode, uid, gid, modifiedAt, target, major, minor } = entry;
  const size = type === "file" ? entry.size : 0;
  const name = entry.path === "" ? (type === "directory" ? "./" : byteString(posix.basename(path))) : entry.path;
  return { name, type, size, mode, uid, gid, modifiedAt, target, major, minor };
}

/** attributes in the form of libarchive, and for other tools also in that of GNU tar and Docker */
function recordsOf(attributes: Attribute[], isForOthers: boolean): [key: string, value: Buffer][] {
  if (attributes.length === 0) return [];
  const told = isForOthers ? attributes.filter(({ name }) => plainAttribute.test(name)) : attributes;
  // The format ends a key at the first "=".
  const possible = told.filter(({ name }) => !name.includes("="));
  return possible.flatMap(({ name, value }) => {
    const coded: [string, Buffer] = [`LIBARCHIVE.xattr.${name}`, Buffer.from(value.toString("base64"))];
    return isForOthers ? [coded, [`SCHILY.xattr.${name}`, value]] : [coded];
  });
}
