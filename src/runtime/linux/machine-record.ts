/**
 * What is on disk about a machine: <store>/machines/<name>/machine.json. It is written when a blank machine gets its
 * owner, when something about it changes, and when it has ended; a folder without it is a blank that nobody used.
 */

import { readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Machine, MachineEnd } from "../../core/runtime.ts";

export interface MachineRecord {
  id: string;
  /** the runtime's own name of it, which its folder, cgroups and socket have */
  name: string;
  spec: Machine["spec"];
  /** first process as the host sees it, and the boot of the host it belongs to */
  pid: number;
  bootId: string;
  base: number;
  bootedAt: number;
  image: {
    /** which version of which image, see images.ts */
    reference: string;
    /** layers, topmost first */
    layers: string[];
    env: Record<string, string>;
  };
  /** its volume; not on record of machines that an older version booted */
  volume?: {
    /** whether it holds everything but the host's directories, see bases.ts */
    whole: boolean;
    /** bytes of the snapshot that it began as a copy of */
    inherited: number;
  };
  /** on a machine that an older version booted: layers of the snapshot above the image, topmost first */
  snapshotLayers?: string[];
  /** its network was being changed: whether to what `spec` says or to something else, nobody knows */
  networkUnsure?: true;
  ended?: MachineEnd;
}

/** replaces the record as a whole, so that a reader never sees half of one */
export function writeRecord(folder: string, record: MachineRecord): void {
  const path = join(folder, "machine.json");
  writeFileSync(`${path}.new`, JSON.stringify(record), { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

export function readRecord(folder: string): MachineRecord | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, "machine.json"), "utf8")) as MachineRecord;
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** every machine folder with its record, if it has one */
export function readRecords(machines: string): { folder: string; name: string; record: MachineRecord | undefined }[] {
  return readdirSync(machines, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => {
      const folder = join(machines, entry.name);
      return { folder, name: entry.name, record: readRecord(folder) };
    });
}
