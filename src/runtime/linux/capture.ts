/** Turns the writable side of machines into layers and snapshots: while they run, when they stop, after they died. */

import { existsSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { isSandkeepError } from "../../core/errors.ts";
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
  /** told of what went wrong in the background */
  trouble: (error: unknown) => void;
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
      const layer = await frozen(plan, () => layers.capture(claim, plan.volume, () => this.#size(plan)));
      const snapshot = await this.#record(record, layer.id);
      this.#flatten(snapshot);
      return snapshot;
    } finally {
      await claim.release();
    }
  }

  /** of a machine without processes: its volume becomes the layer, whatever is in it */
  async dead(plan: BlankPlan, record: MachineRecord): Promise<SnapshotInfo> {
    const { layers } = this.#options;
    const claim = layers.hold();
    try {
      const size = await this.#size(plan);
      const adopt = () => layers.adopt(claim, plan.volume, size, plan.name);
      const layer = await adopt().catch(async (error) => {
        if (!isFull(error)) throw error;
        // a volume that is full to its limit must still take the few bytes that make it a layer
        await this.#options.volumes.limit(plan.volume, 0);
        return adopt();
      });
      const snapshot = await this.#record(record, layer.id);
      this.#options.snapshots.settle(snapshot.id, () => this.#options.volumes.usage(layers.volume(layer.id)));
      this.#flatten(snapshot);
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
      this.#flatten(record.ended.snapshot);
    }
    writeRecord(plan.folder, record);
    return record.ended.snapshot;
  }

  async #record(record: MachineRecord, layer: string): Promise<SnapshotInfo> {
    const { snapshots, layers } = this.#options;
    const chain = [layer, ...record.snapshotLayers];
    return snapshots.record(record.image.reference, chain, await layers.size(chain));
  }

  /** what the kernel has counted; where it counts nothing, a walk, which takes as long as there are files */
  async #size(plan: BlankPlan): Promise<number> {
    const { volumes } = this.#options;
    return (await volumes.usage(plan.volume)) ?? volumes.measure(join(plan.volume, "fs"));
  }

  /** in the background, so that no chain of layers becomes too long to boot from */
  #flatten({ id }: SnapshotInfo): void {
    const { snapshots, trouble } = this.#options;
    // one that was deleted meanwhile has no chain
    void snapshots.flatten(id).catch((error) => isSandkeepError(error, "not-found") || trouble(error));
  }
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
