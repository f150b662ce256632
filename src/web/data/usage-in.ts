/** What a sandbox used in a stretch of time, from the samples of its sessions. */

import type { EgressLine } from "../egress/egress-log.ts";
import type { Stretch } from "../tape/tape-scale.ts";
import type { Session } from "./history.ts";
import type { Sample } from "./samples.ts";

export interface SessionLoad {
  session: Pick<Session, "startedAt" | "createdAt" | "endedAt" | "memory">;
  /** oldest first */
  samples: readonly Sample[];
}

export interface Used {
  /** ms that its sessions were there */
  durationMs: number;
  /** processor time, in ms */
  cpuMs: number;
  /** memory that was reserved for it, in GiB · hours */
  memoryHours: number;
  bytesIn: number;
  bytesOut: number;
}

const hour = 3_600_000;

/** GiB · hours of so many MiB for so many ms */
export function memoryHours(mebibytes: number, ms: number): number {
  return ((mebibytes / 1024) * ms) / hour;
}

export function usedIn(loads: readonly SessionLoad[], stretch: Stretch): Used {
  const used: Used = { durationMs: 0, cpuMs: 0, memoryHours: 0, bytesIn: 0, bytesOut: 0 };
  for (const { session, samples } of loads) {
    const begin = session.startedAt ?? session.createdAt;
    const lasted = overlap(stretch, begin, session.endedAt ?? Number.POSITIVE_INFINITY);
    used.durationMs += lasted;
    used.memoryHours += memoryHours(session.memory, lasted);
    let before = { at: begin, bytesIn: 0, bytesOut: 0 };
    for (const sample of samples) {
      const part = overlap(stretch, before.at, sample.at) / Math.max(1, sample.at - before.at);
      used.cpuMs += sample.processors * (sample.at - before.at) * part;
      used.bytesIn += Math.max(0, sample.bytesIn - before.bytesIn) * part;
      used.bytesOut += Math.max(0, sample.bytesOut - before.bytesOut) * part;
      before = sample;
    }
  }
  return used;
}

/** ms that two stretches have in common */
function overlap({ from, to }: Stretch, start: number, end: number): number {
  return Math.max(0, Math.min(to, end) - Math.max(from, start));
}

export interface HostUse {
  host: string;
  connections: number;
  bytesIn: number;
  bytesOut: number;
}

/** the traffic with each host, as far as the lines say */
export function hostsOf(lines: readonly EgressLine[]): HostUse[] {
  const hosts = new Map<string, HostUse>();
  const number = (value: unknown) => (typeof value === "number" ? value : 0);
  for (const { name, address, allowed, count, bytesIn, bytesOut } of lines) {
    if (allowed !== true) continue;
    const host = String(name ?? address ?? "");
    const use = hosts.get(host) ?? { host, connections: 0, bytesIn: 0, bytesOut: 0 };
    use.connections += number(count);
    use.bytesIn += number(bytesIn);
    use.bytesOut += number(bytesOut);
    hosts.set(host, use);
  }
  return [...hosts.values()].toSorted((a, b) => b.bytesIn + b.bytesOut - a.bytesIn - a.bytesOut);
}
