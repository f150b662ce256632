/** The address ranges that are not the public internet. */

import { bytesOf, contains, embeddings, parseCidr } from "./cidr.ts";

/** special ranges, each with its kind (IANA's special-purpose registries) */
export const specialRanges: [what: string, ranges: string[]][] = [
  ["unspecified", ["0.0.0.0/8", "::/128"]],
  ["loopback", ["127.0.0.0/8", "::1/128"]],
  ["private", ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"]],
  ["shared by carriers", ["100.64.0.0/10"]],
  // Cloud metadata services, which give out credentials, are at 169.254.169.254; their IPv6 address is in fc00::/7.
  ["link-local", ["169.254.0.0/16", "fe80::/10"]],
  // On Azure this public address is the machine's own: it serves the machine's configuration.
  ["a cloud's own", ["168.63.129.16/32"]],
  ["reserved for protocols", ["192.0.0.0/24", "192.88.99.0/24", "100::/64", "5f00::/16"]],
  ["for documentation", ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"]],
  ["for benchmarks and our own resolver", ["198.18.0.0/15", "2001:2::/48"]],
  ["multicast", ["224.0.0.0/4", "ff00::/8"]],
  ["reserved", ["240.0.0.0/4"]],
  // Tunnels and translators whose far end is unknown.
  ["a tunnel", ["2001::/32", "2001:10::/28", "2001:20::/28", "64:ff9b:1::/48"]],
];

const special = specialRanges.flatMap(([, ranges]) => ranges).flatMap((range) => parseCidr(range) ?? []);
const carriers = embeddings.flatMap(({ prefix, at }) => {
  const range = parseCidr(prefix);
  return range ? [{ range, at }] : [];
});

/** whether the address is public; an IPv6 address that embeds an IPv4 address only if both are */
export function isPublic(address: string): boolean {
  const bytes = bytesOf(address);
  if (!bytes) return false;
  const isSpecial = (each: readonly number[]) => special.some((range) => contains(range, each));
  const carrier = carriers.find(({ range }) => contains(range, bytes));
  return !isSpecial(bytes) && !(carrier && isSpecial(bytes.slice(carrier.at, carrier.at + 4)));
}
