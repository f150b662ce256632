/** Finds items of the runtime that the database does not know: machines, snapshots and drives without a row. */

import type { DescribedKind } from "../ports/recovery-files.ts";
import type { MachineEnd, Runtime, SnapshotInfo } from "../ports/runtime.ts";
import type { Store } from "../ports/store.ts";

export interface Unknown {
  /** machines that run, by id */
  live: string[];
  /** machines that have ended but still have output or files */
  ended: MachineEnd[];
  snapshots: SnapshotInfo[];
  drives: string[];
}

export interface Inventory {
  unknown: Unknown;
  /** number of machines and snapshots that the database knows */
  known: number;
}

export type Remembered = Pick<Store, "getSessions" | "liveRuntimeSnapshots" | "isDeletedSnapshot" | "getDrive">;

/** most ids in one statement */
const batch = 500;

export async function takeInventory(store: Remembered, runtime: Runtime): Promise<Inventory> {
  // List the runtime first: an item made meanwhile then has its row before the store is read.
  const [live, ends] = [runtime.machines().map(({ id }) => id), runtime.ends()];
  const [snapshots, drives] = [await runtime.snapshots.list(), await runtime.drives.list()];
  const sessions = await knownSessions(store, [...live, ...ends.map(({ machineId }) => machineId)]);
  const wanted = new Set(await store.liveRuntimeSnapshots());
  const unknownSnapshots: SnapshotInfo[] = [];
  for (const snapshot of snapshots) {
    if (!wanted.has(snapshot.id) && !(await store.isDeletedSnapshot(snapshot.id))) unknownSnapshots.push(snapshot);
  }
  const unknownDrives: string[] = [];
  for (const id of drives) if (!(await store.getDrive(id))) unknownDrives.push(id);
  return {
    unknown: {
      live: live.filter((id) => !sessions.has(id)),
      ended: ends.filter(({ machineId }) => !sessions.has(machineId)),
      snapshots: unknownSnapshots,
      drives: unknownDrives,
    },
    known: sessions.size + snapshots.length - unknownSnapshots.length,
  };
}

/** the key of a quarantine entry */
export function entryOf(kind: DescribedKind, id: string): string {
  return `${kind} ${id}`;
}

export function entriesOf({ live, ended, snapshots, drives }: Unknown): string[] {
  return [
    ...live.map((id) => entryOf("machine", id)),
    ...ended.map(({ machineId }) => entryOf("machine", machineId)),
    ...snapshots.map(({ id }) => entryOf("snapshot", id)),
    ...drives.map((id) => entryOf("drive", id)),
  ];
}

async function knownSessions(store: Remembered, ids: string[]): Promise<Set<string>> {
  const known = new Set<string>();
  for (let at = 0; at < ids.length; at += batch) {
    for (const { id } of await store.getSessions(ids.slice(at, at + batch))) known.add(id);
  }
  return known;
}
