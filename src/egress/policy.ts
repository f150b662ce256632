/**
 * Whether a sandbox may reach what it wants to reach: the one place where that is decided. Sandboxes that may reach
 * nothing at all never get here, as their ruleset stops them; so far all others may reach every public address.
 */

import type { AddressRules } from "./addresses.ts";
import type { Destination, Origin } from "./channel.ts";

export type Wish =
  | { protocol: "tcp" | "udp"; destination: Destination }
  /** a question to the resolver, as it came */
  | { protocol: "dns"; packet: Buffer };

export type Decision = { allowed: true } | { allowed: false; reason: string };

export interface Policy {
  decide(origin: Origin, wish: Wish): Decision;
}

/** Every machine may reach the whole internet. Rules about names will be looked up by `origin.machine`. */
export function allowAll(addresses: AddressRules): Policy {
  return {
    decide: (_origin, wish) => {
      if (wish.protocol === "dns") return { allowed: true };
      const { address, port } = wish.destination;
      const forbidden = addresses.forbidden(address);
      if (forbidden !== undefined) return { allowed: false, reason: `"${address}" is ${forbidden}` };
      if (port === 0) return { allowed: false, reason: "port 0 is none" };
      return { allowed: true };
    },
  };
}
