/**
 * Which addresses a sandbox may reach at all. Connections leave from the host, so whatever only the host or its network
 * should reach is forbidden: private and special ranges, IPv6 forms that carry such an IPv4 address, and the host's own.
 * Only the operator opens any of these; no policy does.
 */

import { BlockList, isIP } from "node:net";
import { bytesOf, embeddings, isAlone, parseCidr, writtenBytes } from "../../core/network/cidr.ts";
import { specialRanges } from "../../core/network/special-ranges.ts";

export interface AddressRules {
  /** why the address is forbidden, and which setting would change that, as words that fit after "is" */
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

const specialLists = specialRanges.map(([what, ranges]) => ({ what, list: blockListOf(ranges) }));

function specialRange(address: string): string | undefined {
  return specialLists.find(({ list }) => has(list, address))?.what;
}

/** whether it is the sandbox's own loopback, where it is used inside */
export function isLoopback(address: string): boolean {
  return specialRange(address) === "loopback";
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
    if (!parseCidr(range)) {
      throw new Error(`Cannot use the address range "${range}": not an address with a prefix length`);
    }
    const [address = "", prefix] = range.split("/");
    const isIPv6 = isIP(address) === 6;
    list.addSubnet(address, Number(prefix ?? (isIPv6 ? 128 : 32)), isIPv6 ? "ipv6" : "ipv4");
  }
  return list;
}
