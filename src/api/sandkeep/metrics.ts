/**
 * GET /metrics: the daemon's metrics in Prometheus's text format 0.0.4. Each metric has a line of help, its type, and a
 * line per value, with labels.
 */

import type { Host } from "../../core/host.ts";
import { authenticate } from "../kit/authentication.ts";
import { errorResponse, nothingHere } from "./errors.ts";
import type { Dialect } from "./sandkeep.ts";

type Vitals = Awaited<ReturnType<Host["vitals"]>>;

interface Metric {
  name: string;
  help: string;
  values: { labels?: Record<string, string>; value: number }[];
}

export function metricsApi({ core, logError }: Dialect): { fetch(request: Request): Promise<Response> } {
  return {
    async fetch(request) {
      try {
        if (!["GET", "HEAD"].includes(request.method)) throw nothingHere();
        const caller = await authenticate(core, { raw: request, path: "/metrics" });
        const text = metricsText(await core.host.vitals(caller));
        return new Response(text, { headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } });
      } catch (error) {
        return errorResponse(error, logError);
      }
    },
  };
}

/** prints the metrics; every metric is a gauge, a current value */
export function metricsText(vitals: Vitals): string {
  return metricsOf(vitals).map(printed).join("");
}

function metricsOf({ machines, disk, openFiles, tcpMemory, sessions }: Vitals): Metric[] {
  const places = (number: "free" | "reserve") =>
    (disk?.places ?? []).map((each) => ({ labels: { place: each.place }, value: each[number] }));
  const ofDisk: Metric[] = [
    {
      name: "sandkeep_disk_free_bytes",
      help: "Bytes that are free on the disk of the data directory, with those held in reserve, and in the store",
      values: places("free"),
    },
    { name: "sandkeep_disk_reserve_bytes", help: "Bytes that are kept free", values: places("reserve") },
    {
      name: "sandkeep_disk_growth_stopped",
      help: "1 while less than the reserve is free: no sandbox is started and none can add to its files",
      values: [{ value: Number(disk?.isGrowthStopped) }],
    },
  ];
  return [
    ...(disk ? ofDisk : []),
    { name: "sandkeep_machines", help: "Sandboxes that run", values: [{ value: machines.running }] },
    {
      name: "sandkeep_paused_machines",
      help: "Sandboxes that are paused and keep their memory",
      values: [{ value: machines.paused }],
    },
    {
      name: "sandkeep_pooled_machines",
      help: "Machines that wait in the pool, booted from an image (hot) or without a root (warm)",
      values: (["hot", "warm"] as const).map((kind) => ({ labels: { kind }, value: machines[kind] })),
    },
    {
      name: "sandkeep_sessions",
      help: "Sessions that are not over, by their state",
      values: Object.entries(sessions).map(([state, value]) => ({ labels: { state }, value })),
    },
    { name: "sandkeep_open_files", help: "Open files on the host", values: [{ value: openFiles.now }] },
    {
      name: "sandkeep_open_files_limit",
      help: "Open files on the host from which on sandboxes lose processes",
      values: [{ value: openFiles.most }],
    },
    {
      name: "sandkeep_tcp_memory_bytes",
      help: "Memory that the kernel uses for TCP on the host",
      values: [{ value: tcpMemory.now }],
    },
    {
      name: "sandkeep_tcp_memory_limit_bytes",
      help: "Memory for TCP on the host from which on sandboxes lose processes",
      values: [{ value: tcpMemory.most }],
    },
  ];
}

function printed({ name, help, values }: Metric): string {
  const lines = values.map(({ labels = {}, value }) => `${name}${inBraces(labels)} ${value}`);
  return [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} gauge`, ...lines, ""].join("\n");
}

function inBraces(labels: Record<string, string>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value).replaceAll('"', '\\"')}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}
