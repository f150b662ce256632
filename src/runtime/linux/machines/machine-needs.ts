/** What a machine needs, and the collection of layers and images must keep. */

import { existsSync } from "node:fs";
import type { MachineRecord } from "../../../protocols/machine-record.ts";
import type { LayerStore } from "../layers/layers.ts";
import type { MachineNeeds } from "../layers/snapshots.ts";
import type { MachinePlan } from "./plan.ts";

/**
 * A machine that may still become a snapshot needs its image; one that an older version booted also stands on layers.
 * The output of a machine whose files are saved or gone needs none of them.
 */
export async function machineNeeds(
  layers: LayerStore,
  machines: { plan: MachinePlan; record: MachineRecord }[],
): Promise<MachineNeeds> {
  const unsaved = machines.filter(({ record }) => !record.ended?.snapshot);
  // A daemon that died over a capture left a layer that no snapshot names yet; salvage() looks for it.
  const names = new Set(unsaved.map(({ record }) => record.name));
  const orphans = (await layers.list()).filter(({ origin }) => origin !== undefined && names.has(origin));
  const origins = new Set(orphans.map(({ origin }) => origin));
  const records = unsaved
    .filter(({ plan, record }) => !record.ended || existsSync(plan.volume) || origins.has(record.name))
    .map(({ record }) => record);
  return {
    layers: [...records.flatMap((record) => record.snapshotLayers ?? []), ...orphans.map(({ id }) => id)],
    images: records.map((record) => record.image.reference),
  };
}
