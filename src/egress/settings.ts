/**
 * The operator's settings for outbound traffic in the egress process. The daemon sends them at each of its starts
 * (control.ts); a process that netd starts while no daemon runs reads the file that the last daemon left.
 */

import { Resolver } from "node:dns";
import { existsSync, readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import type { ForwardHeaders } from "../core/model/conventions.ts";
import { type EgressProxy, type EgressSettings, noEgressSettings } from "../core/ports/egress-settings.ts";
import { readEgressSettings } from "../protocols/egress-control.ts";
import type { Destination } from "../protocols/netd-channel.ts";
import { isProxied, type Target } from "./connection/proxy.ts";
import { parseResolver } from "./dns/resolvers.ts";
import { type AddressRules, addressRules } from "./policy/addresses.ts";

/** The settings in force. Callers must not cache the answers, which may change at any time. */
export interface Settings {
  addresses: AddressRules;
  /** the resolvers to ask */
  resolvers(): Destination[];
  /** PEMs to believe besides the host's own when TLS is opened; the same list until the settings change */
  roots(): readonly string[];
  /** what connections to a target go through, if not straight there; the same object until the settings change */
  proxyFor(target: Target): EgressProxy | undefined;
  forwardHeaders(): ForwardHeaders | undefined;
  /** in force from now on; throws, and changes nothing, where one of them cannot be used */
  use(given: EgressSettings): void;
}

/** how long the host's resolvers and addresses are cached, in ms */
const freshFor = 1_000;

export function newSettings(given: EgressSettings, now: () => number): Settings {
  const host = {
    resolvers: remembered(hostResolvers, now),
    addresses: remembered(hostAddresses, now),
  };
  let current = understood(given);
  return {
    addresses: { forbidden: (address) => current.addresses.forbidden(address) },
    resolvers: () => (current.resolvers.length > 0 ? current.resolvers : host.resolvers()),
    roots: () => current.roots,
    proxyFor: (target) => (current.proxy && isProxied(current.proxy, target) ? current.proxy : undefined),
    forwardHeaders: () => current.forwardHeaders,
    use(next) {
      const changed = understood(next);
      const { roots, proxy } = current;
      current = { ...changed, roots: kept(roots, changed.roots), proxy: kept(proxy, changed.proxy) };
    },
  };

  function understood({ allow, deny, resolvers, roots, proxy, forwardHeaders }: EgressSettings) {
    return {
      proxy,
      forwardHeaders,
      addresses: addressRules({ allow, deny, hostAddresses: host.addresses }),
      resolvers: resolvers.map(parseResolver),
      roots: roots as readonly string[],
    };
  }
}

/** the settings that the last daemon left, in a file or an open descriptor; undefined if there are none */
export function settingsIn(file: string | number | undefined): EgressSettings {
  if (file === undefined || (typeof file === "string" && !existsSync(file))) return noEgressSettings;
  return readEgressSettings(JSON.parse(readFileSync(file, "utf8")));
}

/** A new Resolver reads /etc/resolv.conf again; dns.getServers() keeps the list from the start of the process. */
function hostResolvers(): Destination[] {
  return new Resolver().getServers().map(parseResolver);
}

function hostAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((addresses) => addresses?.map(({ address }) => address) ?? []);
}

/** returns the old value if the new one is equal, so that users can compare by identity */
function kept<T>(before: T, wanted: T): T {
  return JSON.stringify(before) === JSON.stringify(wanted) ? before : wanted;
}

function remembered<T>(read: () => T, now: () => number): () => T {
  let last: { value: T; at: number } | undefined;
  return () => {
    if (!last || now() - last.at >= freshFor) last = { value: read(), at: now() };
    return last.value;
  };
}
