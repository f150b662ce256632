/** Turns the writable side of machines into layers and snapshots: while they run, when they stop, after they died. */

import { existsSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import type { SnapshotInfo } from "../../core/runtime.ts";
import { freeze } from "./cgroup.ts";
import type { LayerStore } from "./layers.ts";
import type { LinuxMachine } from "./machine.ts";
import { type MachineRecord, writeRecord } from "./machine-record.ts";
import type { BlankPlan } from "./plan.ts";
import type { SnapshotStore } from "./snapshots.ts";
import type { Volumes } from "./volumes.ts";

export interface CapturerOptions {
  layers: LayerStore;
  snapshots: SnapshotStore;
  volumes: Volumes;
}

export class Capturer {
  readonly #options: CapturerOptions;

  constructor(options: CapturerOptions) {
    this.#options = options;
  }

  /** of a machine that goes on: nothing of it moves while its volume is copied */
  async live({ plan, record }: LinuxMachine): Promise<SnapshotInfo> {
    const { layers } = this.#options;
    const claim = layers.hold();
    try {
      const size = () => this.#size(plan, record);
      const layer = await frozen(plan, () => layers.capture(claim, plan.volume, size));
      return await this.#record(record, layer.id);
    } finally {
      await claim.release();
    }
  }

  /** of a machine without processes: its volume becomes the layer, whatever is in it */
  async dead(plan: BlankPlan, record: MachineRecord): Promise<SnapshotInfo> {
    const { layers, volumes, snapshots } = this.#options;
    const claim = layers.hold();
    try {
      const size = await this.#size(plan, record);
      const adopt = () => layers.adopt(claim, plan.volume, size, plan.name);
      const layer = await adopt().catch(async (error) => {
        if (!isFull(error)) throw error;
        // a volume that is full to its limit must still take the few bytes that make it a layer
        await volumes.limit(plan.volume, 0);
        return adopt();
      });
      const snapshot = await this.#record(record, layer.id);
      snapshots.settle(snapshot.id, async () => {
        const own = await volumes.usage(layers.volume(layer.id));
        return own === undefined ? undefined : inherited(record) + own;
      });
      return snapshot;
    } finally {
      await claim.release();
    }
  }

  /** of a machine that ended without a snapshot; undefined when its files are gone */
  async salvage(plan: BlankPlan, record: MachineRecord): Promise<SnapshotInfo | undefined> {
    if (!record.ended) return undefined;
    if (record.ended.snapshot) return record.ended.snapshot;
    if (existsSync(plan.volume)) {
      record.ended.snapshot = await this.dead(plan, record);
    } else {
      // a daemon that died between the rename and the record left a layer that knows where it came from
      const orphan = (await this.#options.layers.list()).find((layer) => layer.origin === plan.name);
      if (!orphan) return undefined;
      record.ended.snapshot = await this.#record(record, orphan.id);
    }
    writeRecord(plan.folder, record);
    return record.ended.snapshot;
  }

  async #record(record: MachineRecord, layer: string): Promise<SnapshotInfo> {
    const { snapshots, layers } = this.#options;
    const chain = [layer, ...(record.snapshotLayers ?? [])];
    const whole = record.volume?.whole ?? false;
    return snapshots.record({ image: record.image.reference, layers: chain, size: await layers.size(chain), whole });
  }

  /**
   * what was there when the machine was booted, and what the kernel has counted since; where it counts nothing, a walk,
   * which takes as long as there are files
   */
  async #size(plan: BlankPlan, record: MachineRecord): Promise<number> {
    const { volumes } = this.#options;
    const own = (await volumes.usage(plan.volume)) ?? (await volumes.measure(join(plan.volume, "fs")));
    return inherited(record) + own;
  }
}

function inherited({ volume }: MachineRecord): number {
  return volume?.inherited ?? 0;
}

/** the kernel's limit on the volume, which Node has no name for */
function isFull(error: unknown): boolean {
  return (error as NodeJS.ErrnoException)?.errno === -constants.errno.EDQUOT;
}

async function frozen<T>(plan: BlankPlan, use: () => Promise<T>): Promise<T> {
  try {
    await freeze(plan.cgroup, true);
    return await use();
  } finally {
    await freeze(plan.cgroup, false);
  }
}
