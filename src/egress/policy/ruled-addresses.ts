/**
 * The addresses of hosts with rules, for policies that allow everything else: what goes to such an address without TLS
 * that names its host would go around the rules. They are looked up here, since a program may know an address without
 * having asked this machine's resolver for it. Addresses are kept for a while, as many hosts change theirs with each answer.
 */

import { keepLast } from "../../base/bounded-map.ts";
import { bytesOf } from "../../core/network/cidr.ts";
import { embeddedIPv4 } from "./addresses.ts";
import type { Names } from "./names.ts";

export interface RuledAddresses {
  /** resolves when each name has been looked up once; later lookups run in the background */
  learn(names: readonly string[], lookUp: (name: string) => Promise<string[]>): Promise<void>;
  /** the names that lead to the address */
  namesOf(address: string): string[];
}

/** all names that are known to lead to the address, or to one that it stands for */
export function namesLeadingTo(address: string, known: { names: Names; ruled: RuledAddresses }): string[] {
  const embedded = embeddedIPv4(address);
  return [address, ...(embedded === undefined ? [] : [embedded])].flatMap((each) => [
    ...known.names.namesOf(each),
    ...known.ruled.namesOf(each),
  ]);
}

/** hosts of one policy that are looked up */
const mostNames = 128;
/** hosts that are remembered: those of a few policies */
const mostHosts = 4 * mostNames;
/** addresses of one host that are remembered */
const mostAddresses = 256;
/** ms from one lookup to the next, after an answer and after none */
const again = 60_000;
const soon = 5_000;
/** how long an address is kept after it was last in an answer, in ms */
const keptFor = 60 * 60_000;

interface Host {
  /** when each address is forgotten, by its bytes */
  addresses: Map<string, number>;
  askAfter: number;
  /** settles with the first lookup */
  known: Promise<void>;
}

export function newRuledAddresses(now: () => number): RuledAddresses {
  const hosts = new Map<string, Host>();

  function refresh(name: string, lookUp: (name: string) => Promise<string[]>): Promise<void> {
    const there = hosts.get(name);
    if (there && now() < there.askAfter) return there.known;
    const host: Host = there ?? { addresses: new Map(), askAfter: 0, known: Promise.resolve() };
    host.askAfter = now() + again;
    const asked = lookUp(name)
      .catch(() => [])
      .then((found) => {
        if (found.length === 0) host.askAfter = now() + soon;
        for (const address of found) {
          const key = String(bytesOf(address));
          host.addresses.delete(key);
          host.addresses.set(key, now() + keptFor);
        }
        keepLast(host.addresses, mostAddresses);
      });
    if (there) return there.known;
    host.known = asked;
    hosts.set(name, host);
    keepLast(hosts, mostHosts);
    return asked;
  }

  return {
    async learn(names, lookUp) {
      await Promise.all(names.slice(0, mostNames).map((name) => refresh(name, lookUp)));
    },
    namesOf(address) {
      const key = String(bytesOf(address));
      return [...hosts].filter(([, { addresses }]) => (addresses.get(key) ?? 0) > now()).map(([name]) => name);
    },
  };
}
