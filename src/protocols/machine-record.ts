/**
 * The record of a machine, <store>/machines/<name>/machine.json: one JSON object, which is always replaced as a whole.
 * A later daemon, perhaps of another version, finds its machines by these records.
 *
 * A number at "v" is the version of the format, 1 where the field is missing. A new optional field needs no new version:
 * readers keep the fields that they do not know, and write them back.
 */

import { z } from "zod";
import { parsedJson } from "./json-text.ts";
import { checkVersion } from "./newer-format.ts";

export const machineRecordVersion = 1;

export interface MachineRecord {
  id: string;
  /** the runtime's own name for it, which its folder, cgroups and socket carry */
  name: string;
  spec: RecordedSpec;
  /** first process as the host sees it, and the host's boot in which it runs */
  pid: number;
  bootId: string;
  /** first user id of its range on the host */
  base: number;
  bootedAt: number;
  image: {
    /** the exact version of its image, see images.ts */
    reference: string;
    /** layers, topmost first */
    layers: string[];
    env: Record<string, string>;
  };
  /** its volume; missing in records of older versions */
  volume?: {
    /** whether it holds everything but the host's directories, see bases.ts */
    whole: boolean;
    /** bytes of the snapshot that it began as a copy of */
    inherited: number;
  };
  /** only in records of older versions: layers of the snapshot above the image, topmost first */
  snapshotLayers?: string[];
  /** set while its network changes: the current network may be the one in `spec` or another one */
  networkUnsure?: true;
  /** set while it is paused: its processes are frozen, and stay so until it is resumed */
  paused?: true;
  ended?: RecordedEnd;
}

/** What the machine was booted with. */
export interface RecordedSpec {
  id: string;
  root: { image: string } | { snapshot: string };
  limits: { vcpus: number; memory: number; pids: number; disk: number };
  network: "deny-all" | "allow-all" | "custom";
  sudo: boolean;
  mounts: { path: string; drive: string; mode: "read-write" | "snapshot" }[];
  line?: string;
}

/** How the machine ended; times in ms since 1970, sizes in bytes. */
export interface RecordedEnd {
  machineId: string;
  cause: "asked" | "out-of-memory" | "crash" | "host";
  reason: string;
  endedAt: number;
  snapshot?: { id: string; image: string; layers: string[]; size: number; createdAt: number };
  usage: {
    cpuTime: number;
    memory: number;
    peakMemory: number;
    processes: number;
    network: { received: number; sent: number };
    disk?: number;
    outOfMemoryKills: number;
  };
}

/** JSON has no NaN: a number that could not be measured is written as null */
const measured = z.number().catch(0);
const spec: z.ZodType<RecordedSpec> = z.looseObject({
  id: z.string(),
  root: z.union([z.looseObject({ image: z.string() }), z.looseObject({ snapshot: z.string() })]),
  limits: z.looseObject({ vcpus: z.number(), memory: z.number(), pids: z.number(), disk: z.number() }),
  network: z.enum(["deny-all", "allow-all", "custom"]),
  sudo: z.boolean(),
  mounts: z.array(z.looseObject({ path: z.string(), drive: z.string(), mode: z.enum(["read-write", "snapshot"]) })),
  line: z.string().exactOptional(),
});
const snapshot = z.looseObject({
  id: z.string(),
  image: z.string(),
  layers: z.array(z.string()),
  size: z.number(),
  createdAt: z.number(),
});
const ended: z.ZodType<RecordedEnd> = z.looseObject({
  machineId: z.string(),
  cause: z.enum(["asked", "out-of-memory", "crash", "host"]),
  reason: z.string(),
  endedAt: z.number(),
  snapshot: snapshot.exactOptional(),
  usage: z.looseObject({
    cpuTime: measured,
    memory: measured,
    peakMemory: measured,
    processes: measured,
    network: z.looseObject({ received: measured, sent: measured }),
    disk: measured.exactOptional(),
    outOfMemoryKills: measured,
  }),
});
const schema: z.ZodType<MachineRecord> = z.looseObject({
  id: z.string(),
  name: z.string(),
  spec,
  pid: z.number(),
  bootId: z.string(),
  base: z.number(),
  bootedAt: z.number(),
  image: z.looseObject({
    reference: z.string(),
    layers: z.array(z.string()),
    env: z.record(z.string(), z.string()),
  }),
  volume: z.looseObject({ whole: z.boolean(), inherited: z.number() }).exactOptional(),
  snapshotLayers: z.array(z.string()).exactOptional(),
  networkUnsure: z.literal(true).exactOptional(),
  paused: z.literal(true).exactOptional(),
  ended: ended.exactOptional(),
});

export function writeMachineRecord(record: MachineRecord): string {
  return JSON.stringify(record);
}

/** undefined for a damaged record; throws NewerFormat */
export function readMachineRecord(written: string): MachineRecord | undefined {
  const value = parsedJson(written);
  checkVersion("the record of a machine", value, machineRecordVersion);
  return schema.safeParse(value).data;
}
