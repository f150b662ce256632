/** What the egress process reads from its environment and from the host, checked once and kept fresh. */

import { Resolver } from "node:dns";
import { networkInterfaces } from "node:os";
import type { Destination } from "./channel.ts";
import { parseResolver } from "./resolvers.ts";

export interface Settings {
  /** SANDKEEP_EGRESS_ALLOW: ranges that sandboxes may reach although they are not public, separated by commas */
  allow: string[];
  /** SANDKEEP_DNS: the resolvers to ask, separated by commas; default those of /etc/resolv.conf, as they are now */
  resolvers: () => Destination[];
  /** the addresses of the host's interfaces, as they are now */
  hostAddresses: () => string[];
}

/** how long what the host said is good for, in ms */
const freshFor = 1_000;

export function settingsFrom(environment: NodeJS.ProcessEnv, now: () => number): Settings {
  const resolvers = listOf(environment.SANDKEEP_DNS).map(parseResolver);
  return {
    allow: listOf(environment.SANDKEEP_EGRESS_ALLOW),
    resolvers: resolvers.length > 0 ? () => resolvers : remembered(hostResolvers, now),
    hostAddresses: remembered(hostAddresses, now),
  };
}

function listOf(setting: string | undefined): string[] {
  return (setting ?? "")
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");
}

/** A new Resolver reads /etc/resolv.conf again; dns.getServers() would say for ever what it said at the start. */
function hostResolvers(): Destination[] {
  return new Resolver().getServers().map(parseResolver);
}

function hostAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((addresses) => addresses?.map(({ address }) => address) ?? []);
}

function remembered<T>(read: () => T, now: () => number): () => T {
  let last: { value: T; at: number } | undefined;
  return () => {
    if (!last || now() - last.at >= freshFor) last = { value: read(), at: now() };
    return last.value;
  };
}
