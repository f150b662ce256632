/** Which names led a sandbox to which addresses: the latest answers of its resolver, up to a limit. */

import { bytesOf } from "../../core/network/cidr.ts";

export interface Names {
  /** `ttl` in seconds, as the answer says */
  remember(name: string, address: string, ttl: number): void;
  /** whether this name led to this address */
  has(name: string, address: string): boolean;
  /** the name that led to the address last */
  nameOf(address: string): string | undefined;
  /** all names that led to the address; takes time by the number of pairs */
  namesOf(address: string): string[];
}

/** longest that a pair is kept, in s: programs keep addresses for longer than they should */
const shortest = 300;
const longest = 86_400;
/** pairs of a name and an address; the oldest make room for new ones */
const mostPairs = 1024;

export function newNames(now: () => number): Names {
  /** when each pair is forgotten, by "address name", the oldest first */
  const pairs = new Map<string, number>();
  const last = new Map<string, string>();
  const alive = (pair: string) => (pairs.get(pair) ?? 0) > now();
  return {
    remember(name, address, ttl) {
      const key = keyOf(address);
      const pair = `${key} ${name}`;
      pairs.delete(pair);
      pairs.set(pair, now() + Math.min(Math.max(ttl, shortest), longest) * 1000);
      last.set(key, name);
      if (pairs.size <= mostPairs) return;
      const [oldest = ""] = pairs.keys();
      pairs.delete(oldest);
      const [address_ = "", name_] = oldest.split(" ");
      if (last.get(address_) === name_) last.delete(address_);
    },
    has: (name, address) => alive(`${keyOf(address)} ${name}`),
    nameOf(address) {
      const key = keyOf(address);
      const name = last.get(key);
      return name !== undefined && alive(`${key} ${name}`) ? name : undefined;
    },
    namesOf(address) {
      const start = `${keyOf(address)} `;
      return [...pairs.keys()]
        .filter((pair) => pair.startsWith(start) && alive(pair))
        .map((pair) => pair.slice(start.length));
    },
  };
}

/** one spelling for each address */
function keyOf(address: string): string {
  return (bytesOf(address) ?? []).join(".");
}
