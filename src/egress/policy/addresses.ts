/**
 * Which addresses a sandbox may reach at all. Connections leave from the host, so whatever only the host or its network
 * should reach is forbidden: private and special ranges, IPv6 forms that carry such an IPv4 address, and the host's own.
 * Only the operator opens any of these; no policy does.
 */

import { BlockList, isIP } from "node:net";
import { bytesOf, embeddings, isAlone, parseCidr, writtenBytes } from "../../core/network/cidr.ts";

export interface AddressRules {
  /** why the address is out of bounds, and which setting would change that, as words that fit after "is" */
  forbidden(address: string): string | undefined;
}

export interface AddressOptions {
  /** ranges that are allowed although they would be forbidden, such as "10.1.0.0/16"; the host's own only one by one */
  allow: string[];
  /** ranges that are forbidden whatever `allow` says */
  deny?: string[];
  /** the host's own addresses, as they are now */
  hostAddresses: () => string[];
}

export function addressRules(options: AddressOptions): AddressRules {
  const allowed = blockListOf(options.allow);
  const denied = blockListOf(options.deny ?? []);
  const isDenied = (address: string | undefined) => address !== undefined && has(denied, address);
  let own = { listed: "", bytes: new Set<string>() };
  // In whatever spelling, also of IPv4 as IPv6 (::ffff:…), which the kernel takes for the same.
  const isHosts = (address: string) => {
    const list = options.hostAddresses();
    const listed = list.join();
    if (own.listed !== listed) own = { listed, bytes: new Set(list.map((each) => String(bytesOf(each)))) };
    return own.bytes.has(String(bytesOf(address)));
  };
  const alone = blockListOf(
    options.allow.filter((range) => {
      const cidr = parseCidr(range);
      return cidr !== undefined && isAlone(cidr);
    }),
  );
  const closed = (address: string) => {
    if (isHosts(address)) return has(alone, address) ? undefined : openable(ownAddress, address);
    const special = has(allowed, address) ? undefined : specialRange(address);
    return special && openable(special, address);
  };
  return {
    forbidden: (address) => {
      if (isIP(address) === 0) return "not an address";
      const embedded = embeddedIPv4(address);
      if (isDenied(address) || isDenied(embedded))
        return "denied to all sandboxes of this host by SANDKEEP_EGRESS_DENY";
      return closed(address) ?? (embedded === undefined || has(allowed, address) ? undefined : closed(embedded));
    },
  };
}

const ownAddress = "the host's own";

/** what lies in these may be another machine, which the operator can open */
const machines = [ownAddress, "private", "shared by carriers", "link-local", "a cloud's own", "for documentation"];

function openable(what: string, address: string): string {
  if (!machines.includes(what)) return what;
  return `${what} (SANDKEEP_EGRESS_ALLOW=${address}/${isIP(address) === 6 ? 128 : 32} would open it)`;
}

/** ranges that are not the public internet, each with what it is (IANA's special-purpose registries) */
const specialRanges: [what: string, ranges: string[]][] = [
  ["unspecified", ["0.0.0.0/8", "::/128"]],
  ["loopback", ["127.0.0.0/8", "::1/128"]],
  ["private", ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"]],
  ["shared by carriers", ["100.64.0.0/10"]],
  // Clouds answer for a machine's credentials here: 169.254.169.254; the IPv6 one is in fc00::/7.
  ["link-local", ["169.254.0.0/16", "fe80::/10"]],
  // A public address that on Azure is the machine's own: it hands out what the machine was set up with.
  ["a cloud's own", ["168.63.129.16/32"]],
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

/** whether it is an address of the internet, whatever this host lets sandboxes reach */
export function isPublic(address: string): boolean {
  const embedded = embeddedIPv4(address);
  return specialRange(address) === undefined && (embedded === undefined || specialRange(embedded) === undefined);
}

const embeddingLists = embeddings.map(({ prefix, at }) => ({ list: blockListOf([prefix]), at }));

/** the IPv4 address that an IPv6 address stands for, where it does */
export function embeddedIPv4(address: string): string | undefined {
  if (isIP(address) !== 6) return undefined;
  const embedding = embeddingLists.find(({ list }) => has(list, address));
  if (!embedding) return undefined;
  return writtenBytes(address)
    ?.slice(embedding.at, embedding.at + 4)
    .join(".");
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
