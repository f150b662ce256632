/** Addresses and ranges of addresses, IPv4 and IPv6, as bytes, for matching network policies. */

import { SandkeepError } from "../model/errors.ts";

/** All addresses with a common prefix. */
export interface Cidr {
  /** as it was written */
  text: string;
  /** four or sixteen bytes */
  bytes: readonly number[];
  /** prefix length in bits */
  length: number;
}

/** undefined if it is not an address with an optional prefix length; a single address is a range of one */
export function parseCidr(text: string): Cidr | undefined {
  const [address = "", prefix, ...rest] = text.split("/");
  const bytes = writtenBytes(address);
  if (!bytes || rest.length > 0 || (prefix !== undefined && !/^\d{1,3}$/.test(prefix))) return undefined;
  const length = prefix === undefined ? bytes.length * 8 : Number(prefix);
  if (length > bytes.length * 8) return undefined;
  return isMapped(bytes) && length >= 96
    ? { text, bytes: bytes.slice(12), length: length - 96 }
    : { text, bytes, length };
}

/** like parseCidr, but throws: an unreadable range would deny nothing, so its whole policy must not be used */
export function cidrOf(text: string): Cidr {
  const cidr = parseCidr(text);
  if (!cidr) throw new SandkeepError("invalid", `Cannot use the subnet "${text}": it is not in CIDR notation`);
  return cidr;
}

/** whether the range contains the address; an IPv4 address written as IPv6 (::ffff:…) counts as IPv4 */
export function contains(range: Cidr, address: readonly number[]): boolean {
  if (range.bytes.length !== address.length) return false;
  for (let at = 0; at * 8 < range.length; at++) {
    const ignored = Math.max(0, 8 - (range.length - at * 8));
    if ((range.bytes[at] ?? 0) >> ignored !== (address[at] ?? 0) >> ignored) return false;
  }
  return true;
}

/** whether `outer` contains every address of `inner` */
export function covers(outer: Cidr, inner: Cidr): boolean {
  return inner.length >= outer.length && contains(outer, inner.bytes);
}

/** whether it is a range of one address */
export function isAlone(range: Cidr): boolean {
  return range.length === range.bytes.length * 8;
}

/** where IPv6 addresses embed an IPv4 address: the offset among the sixteen bytes */
export const embeddings: readonly { prefix: string; at: number }[] = [
  { prefix: "::ffff:0:0/96", at: 12 },
  { prefix: "::ffff:0:0:0/96", at: 12 },
  { prefix: "::/96", at: 12 },
  { prefix: "64:ff9b::/96", at: 12 },
  { prefix: "2002::/16", at: 2 },
];

/** the four bytes of an IPv4 or sixteen of an IPv6 address; undefined if the text is neither */
export function bytesOf(address: string): number[] | undefined {
  const bytes = writtenBytes(address);
  return bytes && isMapped(bytes) ? bytes.slice(12) : bytes;
}

/** like bytesOf, but an IPv4 address written as IPv6 keeps all sixteen bytes */
export function writtenBytes(address: string): number[] | undefined {
  return address.includes(":") ? bytesOfIPv6(address) : bytesOfIPv4(address);
}

/** ::ffff:1.2.3.4 */
function isMapped(bytes: number[]): boolean {
  return bytes.length === 16 && bytes.slice(0, 12).every((byte, at) => byte === (at < 10 ? 0 : 255));
}

function bytesOfIPv4(text: string): number[] | undefined {
  const parts = text.split(".");
  // Some programs read a leading zero as octal, so we refuse it.
  if (parts.length !== 4 || parts.some((part) => !/^(0|[1-9]\d{0,2})$/.test(part))) return undefined;
  const bytes = parts.map(Number);
  return bytes.every((byte) => byte <= 255) ? bytes : undefined;
}

function bytesOfIPv6(text: string): number[] | undefined {
  const [head = "", tail, ...rest] = text.split("::");
  if (rest.length > 0) return undefined;
  const left = groupsOf(head, tail === undefined);
  const right = tail === undefined ? [] : groupsOf(tail, true);
  if (!left || !right) return undefined;
  const missing = 16 - left.length - right.length;
  if (tail === undefined ? missing !== 0 : missing < 2) return undefined;
  return [...left, ...Array.from({ length: missing }, () => 0), ...right];
}

/** the bytes of "2606:2800" and, at the end of an address, of "ffff:1.2.3.4" */
function groupsOf(text: string, atEnd: boolean): number[] | undefined {
  if (text === "") return [];
  const groups = text.split(":");
  const bytes: number[] = [];
  for (const [index, group] of groups.entries()) {
    if (atEnd && index === groups.length - 1 && group.includes(".")) {
      const last = bytesOfIPv4(group);
      if (!last) return undefined;
      bytes.push(...last);
    } else if (/^[0-9a-fA-F]{1,4}$/.test(group)) {
      const value = Number.parseInt(group, 16);
      bytes.push(value >> 8, value & 255);
    } else {
      return undefined;
    }
  }
  return bytes;
}
