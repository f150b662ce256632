/**
 * The files with machines' records: <store>/machines/<name>/machine.json (src/protocols/machine-record.ts). A record is
 * written when a prepared machine gets its owner, when something about it changes, and when it has ended; a folder
 * without one is a prepared machine that was never used. A record that is damaged beyond repair says nothing about its
 * machine, so the machine may not be ended because of it. A spare outside the store holds the record as it was when the
 * machine got its owner.
 */

import { closeSync, fsync, openSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type MachineRecord, readMachineRecord, writeMachineRecord } from "../../../protocols/machine-record.ts";
import { readKeptSync, writeKeptSync } from "../storage/kept-record.ts";
import { readFormat } from "../storage/read-format.ts";
import { type MachinePlan, type Places, spareOf } from "./plan.ts";

/** replaces the record as a whole, so that a reader never sees half of one */
export function writeRecord(folder: string, record: MachineRecord): void {
  writeKeptSync(join(folder, "machine.json"), writeMachineRecord(record));
}

/** marks the network as unsure, as the spare is not written again when it changes; on a full disk there is no spare */
export function writeSpare({ spare }: Pick<MachinePlan, "spare">, record: MachineRecord): void {
  try {
    writeFileSync(spare, writeMachineRecord({ ...record, networkUnsure: true }), { mode: 0o600 });
  } catch {
    rmSync(spare, { force: true });
  }
}

/** resolves when the record is on the disk, or cannot be flushed: without it a loss of power costs the machine's files */
export async function flushRecord(folder: string): Promise<void> {
  let file: number;
  try {
    file = openSync(join(folder, "machine.json"), "r");
  } catch {
    return;
  }
  // A disk that cannot be flushed shows in everything else.
  await new Promise<void>((resolve) => fsync(file, () => resolve()));
  closeSync(file);
}

/** throws for a record of a newer version: it is not damaged, and must not be set aside */
function parse(text: string): MachineRecord | undefined {
  return readFormat(() => readMachineRecord(text));
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
