/**
 * Which addresses a sandbox may reach. Connections leave from the host, so whatever only the host or its network should
 * reach is forbidden: private and special ranges, IPv6 forms that carry such an IPv4 address, and the host's own.
 */

import { BlockList, isIP } from "node:net";

export interface AddressRules {
  /** why the address is out of bounds, as words that fit after "because it is"; undefined when it may be reached */
  forbidden(address: string): string | undefined;
}

export interface AddressOptions {
  /** ranges that are allowed although they would be forbidden, such as "10.1.0.0/16" */
  allow: string[];
  /** the host's own addresses, as they are now */
  hostAddresses: () => string[];
}

export function addressRules(options: AddressOptions): AddressRules {
  const allowed = blockListOf(options.allow);
  return {
    forbidden: (address) => {
      if (isIP(address) === 0) return "not an address";
      if (has(allowed, address)) return undefined;
      if (options.hostAddresses().some((own) => sameAddress(own, address))) return "the host's own";
      const special = specialRange(address);
      if (special !== undefined) return special;
      const embedded = embeddedIPv4(address);
      if (embedded === undefined || has(allowed, embedded)) return undefined;
      if (options.hostAddresses().includes(embedded)) return "the host's own";
      return specialRange(embedded);
    },
  };
}

/** ranges that are not the public internet, each with what it is (IANA's special-purpose registries) */
const specialRanges: [what: string, ranges: string[]][] = [
  ["unspecified", ["0.0.0.0/8", "::/128"]],
  ["loopback", ["127.0.0.0/8", "::1/128"]],
  ["private", ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"]],
  ["shared by carriers", ["100.64.0.0/10"]],
  // Clouds answer for a machine's credentials here: 169.254.169.254; the IPv6 one is in fc00::/7.
  ["link-local", ["169.254.0.0/16", "fe80::/10"]],
  ["reserved for protocols", ["192.0.0.0/24", "192.88.99.0/24", "100::/64", "5f00::/16"]],
  ["for documentation", ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"]],
  ["for benchmarks and our own resolver", ["198.18.0.0/15", "2001:2::/48"]],
  ["multicast", ["224.0.0.0/4", "ff00::/8"]],
  ["reserved", ["240.0.0.0/4"]],
  // Tunnels and translators whose far end we cannot judge.
  ["a tunnel", ["2001::/32", "2001:10::/28", "2001:20::/28", "64:ff9b:1::/48"]],
];

const specialLists = specialRanges.map(([what, ranges]) => ({ what, list: blockListOf(ranges) }));

function specialRange(address: string): string | undefined {
  return specialLists.find(({ list }) => has(list, address))?.what;
}

/** where an IPv4 address sits in IPv6 addresses: after how many of the sixteen bytes */
const embeddings: { prefix: string; at: number }[] = [
  { prefix: "::ffff:0:0/96", at: 12 },
  { prefix: "::ffff:0:0:0/96", at: 12 },
  { prefix: "::/96", at: 12 },
  { prefix: "64:ff9b::/96", at: 12 },
  { prefix: "2002::/16", at: 2 },
];

const embeddingLists = embeddings.map(({ prefix, at }) => ({ list: blockListOf([prefix]), at }));

function embeddedIPv4(address: string): string | undefined {
  if (isIP(address) !== 6) return undefined;
  const embedding = embeddingLists.find(({ list }) => has(list, address));
  if (!embedding) return undefined;
  return bytesOfIPv6(address)
    .slice(embedding.at, embedding.at + 4)
    .join(".");
}

/** the sixteen bytes of a valid IPv6 address */
export function bytesOfIPv6(address: string): number[] {
  const [head = "", tail] = address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, dottedToGroups).split("::");
  const groups = (text: string) => (text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16)));
  const [left, right] = [groups(head), groups(tail ?? "")];
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => 0);
  return [...left, ...zeros, ...right].flatMap((group) => [group >> 8, group & 255]);
}

function dottedToGroups(_: string, ...parts: (string | number)[]): string {
  const [a = 0, b = 0, c = 0, d = 0] = parts.slice(0, 4).map(Number);
  return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
}

function sameAddress(one: string, other: string): boolean {
  if (isIP(one) !== isIP(other)) return false;
  return one === other || (isIP(one) === 6 && bytesOfIPv6(one).join() === bytesOfIPv6(other).join());
}

function has(list: BlockList, address: string): boolean {
  return list.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}

function blockListOf(ranges: string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = "", prefix] = range.split("/");
    const family = isIP(address);
    const longest = family === 6 ? 128 : 32;
    const length = prefix === undefined ? longest : Number(prefix);
    if (family === 0 || !Number.isInteger(length) || length < 0 || length > longest) {
      throw new Error(`Cannot use the address range "${range}": not an address with a prefix length`);
    }
    list.addSubnet(address, length, family === 6 ? "ipv6" : "ipv4");
  }
  return list;
}
