/** What the egress process reads from its environment and from the host, checked once and kept fresh. */

import { Resolver } from "node:dns";
import { readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import type { Destination } from "./channel.ts";
import { parseResolver } from "./resolvers.ts";

export interface Settings {
  /** SANDKEEP_EGRESS_ALLOW: ranges that sandboxes may reach although they are not public, separated by commas */
  allow: string[];
  /** SANDKEEP_EGRESS_DENY: ranges that no sandbox may reach, whatever its policy says */
  deny: string[];
  /** SANDKEEP_DNS: the resolvers to ask, separated by commas; default those of /etc/resolv.conf, as they are now */
  resolvers: () => Destination[];
  /** the addresses of the host's interfaces, as they are now */
  hostAddresses: () => string[];
  /** SANDKEEP_EGRESS_SOCKET: where the daemon gives us policies; without it nobody does */
  socket: string | undefined;
  /** SANDKEEP_EGRESS_LOGS: has a folder for each machine, for its log; without it nothing is written */
  logs: string | undefined;
  /** SANDKEEP_EGRESS_CA: a file of PEMs to believe besides the host's own when TLS is opened */
  roots: string[];
}

/** how long what the host said is good for, in ms */
const freshFor = 1_000;

export function settingsFrom(environment: NodeJS.ProcessEnv, now: () => number): Settings {
  const resolvers = listOf(environment.SANDKEEP_DNS).map(parseResolver);
  return {
    allow: listOf(environment.SANDKEEP_EGRESS_ALLOW),
    deny: listOf(environment.SANDKEEP_EGRESS_DENY),
    resolvers: resolvers.length > 0 ? () => resolvers : remembered(hostResolvers, now),
    hostAddresses: remembered(hostAddresses, now),
    socket: environment.SANDKEEP_EGRESS_SOCKET,
    logs: environment.SANDKEEP_EGRESS_LOGS,
    roots: rootsIn(environment.SANDKEEP_EGRESS_CA),
  };
}

function rootsIn(file: string | undefined): string[] {
  return file === undefined || file === "" ? [] : [readFileSync(file, "utf8")];
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
