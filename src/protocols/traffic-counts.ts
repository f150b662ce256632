/**
 * Bytes and connections of a machine, added up by host or by port, in files that are replaced as a whole:
 *
 *   egress-hosts.json   by host, from the egress process   {"api.test":{"bytesIn":5120,"bytesOut":840,"count":2},…}
 *   ports.json          by port, from the daemon           {"3000":{"bytesIn":840,"bytesOut":5120,"count":2},…}
 *
 *   bytesIn, bytesOut   as the machine's programs see them
 *   count               connections, or flows of datagrams
 *
 * They are replaced several times a second and never flushed, so a host that lost its power may leave an empty one:
 * then only the counts are lost. A number at "v" is the version of the format, 1 if it is missing; a host called "v"
 * has an object there instead.
 */

import type { EgressTraffic } from "./egress-log.ts";
import { parsedJson } from "./json-text.ts";
import { checkVersion } from "./newer-format.ts";
import { count, fitting, object, record } from "./shapes.ts";

export const trafficCountsVersion = 1;

export const hostCountsFile = "egress-hosts.json";
export const portCountsFile = "ports.json";

/** Counts of a host or a port, updated while traffic goes on. */
export interface TrafficCounts extends EgressTraffic {
  /** connections, or flows of datagrams */
  count: number;
}

const shape = record(object<TrafficCounts>({ bytesIn: count, bytesOut: count, count }));

export function writeTrafficCounts(counts: Record<string, TrafficCounts>): string {
  return JSON.stringify(counts);
}

/** empty if the text has another format; throws NewerFormat */
export function readTrafficCounts(written: string): Record<string, TrafficCounts> {
  const value = parsedJson(written);
  checkVersion("how many bytes went where", value, trafficCountsVersion);
  return fitting(shape, value) ?? {};
}
