/**
 * The header of a tar's member: one block of 512 bytes, as POSIX (ustar, pax) and GNU tar write it.
 *
 *   offset  size  what
 *   0       100   name
 *   100     8     permission bits; this and the other numbers in octal, or in base 256 if the first bit is set
 *   108     8     user id
 *   116     8     group id
 *   124     12    size of the content, which follows and is padded to whole blocks
 *   136     12    time of the last change, in seconds
 *   148     8     sum of all bytes of the header, with these eight as blanks
 *   156     1     type
 *   157     100   target of a link or symlink
 *   257     8     "ustar\0" and "00" (POSIX), "ustar  \0" (GNU), or zeros (older)
 *   265     64    names of user and group
 *   329     16    device numbers
 *   345     155   POSIX: what comes before the name
 *
 * Before it, a member of type "x" may hold records that replace its fields: "<length> <key>=<value>\n". Their values may
 * be any bytes, as may names. Names are byte strings here (byte-string.ts).
 */

import { bytesOf } from "./byte-string.ts";

export const blockLength = 512;

export type TarType = "file" | "link" | "symlink" | "character-device" | "block-device" | "directory" | "fifo";

export interface TarMember {
  /** byte string */
  name: string;
  type: TarType;
  /** bytes of content; 0 for all but files */
  size: number;
  /** permission bits */
  mode: number;
  uid: number;
  gid: number;
  /** ms since 1970 */
  modifiedAt: number;
  /** byte string: the target of a link or symlink, else empty */
  target: string;
  major: number;
  minor: number;
  attributes: TarAttribute[];
}

/** an extended attribute */
export interface TarAttribute {
  /** byte string */
  name: string;
  value: Buffer;
}

/** What breaks the rules of the format. */
export class TarError extends Error {
  override readonly name = "TarError";
}

/** types of members that describe another one */
export type ExtraType = "records" | "global-records" | "long-name" | "long-target";

export type RawHeader = Omit<TarMember, "type" | "attributes"> & {
  /** undefined if it is unknown, with the letter in `letter` */
  type: TarType | ExtraType | undefined;
  letter: string;
};

/** undefined for a block of zeros */
export function parseHeader(block: Buffer): RawHeader | undefined {
  const sum = sumOf(block);
  // The eight blanks alone make 256.
  if (sum === 256 && block.every((byte) => byte === 0)) return undefined;
  if (sum !== numberAt(block, 148, 8)) throw new TarError("the checksum of a header is wrong");
  const magic = block.toString("latin1", 257, 265);
  const isPosix = magic.startsWith("ustar\0");
  if (!isPosix && magic !== "ustar  \0" && !/^\0+$/.test(magic)) throw new TarError("a header has an unknown format");
  const prefix = isPosix ? stringAt(block, 345, 155) : "";
  const name = stringAt(block, 0, 100);
  const letter = String.fromCharCode(block[156] || 0x30);
  return {
    name: prefix === "" ? name : `${prefix}/${name}`,
    type: types[letter],
    letter,
    size: numberAt(block, 124, 12),
    mode: numberAt(block, 100, 8) & 0o7777,
    uid: numberAt(block, 108, 8),
    gid: numberAt(block, 116, 8),
    modifiedAt: numberAt(block, 136, 12) * 1000,
    target: stringAt(block, 157, 100),
    major: numberAt(block, 329, 8),
    minor: numberAt(block, 337, 8),
  };
}

/** the records of an extended header; keys are byte strings */
export function parseRecords(content: Buffer): [key: string, value: Buffer][] {
  const records: [string, Buffer][] = [];
  for (let at = 0; at < content.length; ) {
    // Some writers fill the rest with zeros.
    if (content[at] === 0) break;
    const blank = content.indexOf(0x20, at);
    const digits = blank < 0 || blank - at > 9 ? "" : content.toString("latin1", at, blank);
    const end = at + Number(digits);
    const equals = content.indexOf(0x3d, blank);
    const isWhole = /^\d+$/.test(digits) && end <= content.length && content[end - 1] === 0x0a;
    if (!isWhole || equals < 0 || equals >= end) throw new TarError("an extended header is malformed");
    records.push([content.toString("latin1", blank + 1, equals), content.subarray(equals + 1, end - 1)]);
    at = end;
  }
  return records;
}

/** the bytes in front of a member's content */
export function headerOf(member: TarMember, records: [key: string, value: Buffer][] = []): Buffer {
  const all = [...records];
  if (member.name.length > 100) all.push(["path", bytesOf(member.name)]);
  if (member.target.length > 100) all.push(["linkpath", bytesOf(member.target)]);
  const seconds = Math.floor(member.modifiedAt / 1000);
  if (seconds > largestOctal) all.push(["mtime", Buffer.from(String(seconds))]);
  const own = block(member, letters[member.type], Math.min(seconds, largestOctal));
  if (all.length === 0) return own;
  const content = Buffer.concat(all.map(([key, value]) => record(key, value)));
  const about = { ...member, name: "PaxHeader", target: "", size: content.length, mode: 0o644, uid: 0, gid: 0 };
  return Buffer.concat([block(about, "x", 0), content, padding(content.length), own]);
}

/** zeros that fill the last block of a content */
export function padding(size: number): Buffer {
  const over = size % blockLength;
  return over === 0 ? nothing : zeros.subarray(0, blockLength - over);
}

/** the end of an archive */
export function tarEnd(): Buffer {
  return Buffer.alloc(2 * blockLength);
}

const zeros = Buffer.alloc(blockLength);
const nothing = Buffer.alloc(0);
const largestOctal = 8 ** 11 - 1;

const letters: Record<TarType, string> = {
  file: "0",
  link: "1",
  symlink: "2",
  "character-device": "3",
  "block-device": "4",
  directory: "5",
  fifo: "6",
};

const types: Record<string, TarType | ExtraType> = {
  ...(Object.fromEntries(Object.entries(letters).map(([type, letter]) => [letter, type])) as Record<string, TarType>),
  // a file that asks for one piece of the disk
  "7": "file",
  x: "records",
  g: "global-records",
  L: "long-name",
  K: "long-target",
};

function sumOf(block: Buffer): number {
  let sum = 256;
  for (let at = 0; at < 148; at++) sum += block[at] ?? 0;
  for (let at = 156; at < blockLength; at++) sum += block[at] ?? 0;
  return sum;
}

function stringAt(block: Buffer, at: number, length: number): string {
  const end = block.indexOf(0, at);
  return block.toString("latin1", at, end < 0 || end > at + length ? at + length : end);
}

export function numberAt(block: Buffer, at: number, length: number): number {
  const first = block[at] ?? 0;
  if ((first & 0x80) !== 0) return binaryAt(block, at, length);
  const digits =
    block
      .toString("latin1", at, at + length)
      .split("\0", 1)[0]
      ?.trim() ?? "";
  if (digits === "") return 0;
  if (!/^[0-7]+$/.test(digits)) throw new TarError("a header has a number that is not octal");
  return Number.parseInt(digits, 8);
}

/** big-endian; a negative number counts as 0, as no field of ours can have one */
function binaryAt(block: Buffer, at: number, length: number): number {
  if (block[at] === 0xff) return 0;
  let value = (block[at] ?? 0) & 0x7f;
  for (let next = at + 1; next < at + length; next++) value = value * 256 + (block[next] ?? 0);
  if (!Number.isSafeInteger(value)) throw new TarError("a header has a number that is too large");
  return value;
}

function block(member: Omit<TarMember, "type" | "attributes">, letter: string, seconds: number): Buffer {
  const bytes = Buffer.alloc(blockLength);
  bytes.write(member.name.slice(0, 100), 0, "latin1");
  putNumber(bytes, 100, 8, member.mode & 0o7777);
  putNumber(bytes, 108, 8, member.uid);
  putNumber(bytes, 116, 8, member.gid);
  putNumber(bytes, 124, 12, member.size);
  putNumber(bytes, 136, 12, Math.max(seconds, 0));
  bytes.write(letter, 156, "latin1");
  bytes.write(member.target.slice(0, 100), 157, "latin1");
  bytes.write("ustar\x0000", 257, "latin1");
  putNumber(bytes, 329, 8, member.major);
  putNumber(bytes, 337, 8, member.minor);
  bytes.write(`${sumOf(bytes).toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return bytes;
}

function putNumber(bytes: Buffer, at: number, length: number, value: number): void {
  const digits = value.toString(8);
  if (digits.length < length) bytes.write(`${digits.padStart(length - 1, "0")}\0`, at, "latin1");
  else {
    bytes.writeUIntBE(value, at + length - 6, 6);
    bytes[at] = 0x80;
  }
}

/** its length counts the digits of the length too */
function record(key: string, value: Buffer): Buffer {
  const rest = key.length + value.length + 3;
  let length = rest + String(rest).length;
  if (String(length).length > String(rest).length) length++;
  return Buffer.concat([bytesOf(`${length} ${key}=`), value, Buffer.from("\n")]);
}
