/**
 * What is on disk about a machine: <store>/machines/<name>/machine.json. It is written when a prepared machine gets its
 * owner, when something about it changes, and when it has ended; a folder without it is a prepared machine that nobody used. A
 * record that is damaged beyond repair says nothing, least of all that its machine may be ended. So there is a spare of it
 * outside the store, as it was when the machine got its owner.
 */

import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { Machine, MachineEnd } from "../../../core/ports/runtime.ts";
import { parsedJson } from "../../../protocols/json-text.ts";
import { checkVersion } from "../../../protocols/newer-format.ts";
import { readKeptSync, writeKeptSync } from "../storage/kept-record.ts";
import { readFormat } from "../storage/read-format.ts";
import { type MachinePlan, type Places, spareOf } from "./plan.ts";

/** at "v" in a record; 1 where there is none. A field that may be missing needs no new version */
const recordVersion = 1;

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
  writeKeptSync(join(folder, "machine.json"), JSON.stringify(record));
}

/** its network may be changed later, which the spare does not tell; without room for one there is none */
export function writeSpare({ spare }: Pick<MachinePlan, "spare">, record: MachineRecord): void {
  try {
    writeFileSync(spare, JSON.stringify({ ...record, networkUnsure: true }), { mode: 0o600 });
  } catch {
    rmSync(spare, { force: true });
  }
}

/** resolves when the record is on the disk, as far as that can be had: without it a loss of power costs the machine's files */
export async function flushRecord(folder: string): Promise<void> {
  const file = await open(join(folder, "machine.json")).catch(() => undefined);
  if (!file) return;
  try {
    await file.sync();
  } catch {
    // A disk that cannot be flushed shows in everything else.
  } finally {
    await file.close();
  }
}

/** one of a newer version is not damaged, and must not be set aside: throws */
function parse(text: string): MachineRecord | undefined {
  const record = parsedJson(text) as Partial<MachineRecord> | null | undefined;
  readFormat(() => checkVersion("the record of a machine", record, recordVersion));
  // Our own file, written whole: what has these has the rest.
  return record?.id !== undefined && record.spec ? (record as MachineRecord) : undefined;
}

export interface MachineFolder {
  folder: string;
  name: string;
  record: MachineRecord | "damaged" | undefined;
}

/** every machine folder with its record, if it has one */
export function readRecords(places: Pick<Places, "machines" | "spares">): MachineFolder[] {
  return readdirSync(places.machines, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => {
      const folder = join(places.machines, name);
      return { folder, name, record: readKeptSync(join(folder, "machine.json"), parse, spareOf(places, name)) };
    });
}
