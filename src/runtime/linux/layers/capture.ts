/** Turns the volumes of machines into layers and snapshots: while they run, when they stop, after they died. */

import { lstatSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { OrderedWork } from "../../../base/concurrency/ordered-work.ts";
import type { SnapshotInfo } from "../../../core/ports/runtime.ts";
import type { MachineRecord } from "../../../protocols/machine-record.ts";
import { readOnlyError } from "../guest-wire/failure.ts";
import { freeze } from "../machines/freezer.ts";
import type { LinuxMachine } from "../machines/machine.ts";
import type { MachinePlan } from "../machines/plan.ts";
import { writeRecord } from "../machines/record-files.ts";
import type { Volumes } from "../storage/volumes.ts";
import { type LayerInfo, newLayerId } from "./layer-record.ts";
import type { LayerStore } from "./layers.ts";
import { draftRecord, recordIn, type SnapshotRecord, type SnapshotStore } from "./snapshots.ts";

export interface CapturerOptions {
  layers: LayerStore;
  snapshots: SnapshotStore;
  volumes: Volumes;
  /** whether a capture must survive a loss of power from the moment it is acknowledged */
  durable: boolean;
  /** whether the store has failed: files that seem missing may be there once it is mounted anew */
  isReadOnly: () => boolean;
  /** throws if the kernel could not write some data of a volume, even though it has copied the volume */
  requireWhole: () => Promise<void>;
}

export class Capturer {
  readonly #options: CapturerOptions;
  /** captures of live machines, by name: each leaves its record in the volume */
  readonly #captures = new OrderedWork();

  constructor(options: CapturerOptions) {
    this.#options = options;
  }

  /** captures a machine that goes on or is paused, one capture after the other */
  live(machine: LinuxMachine): Promise<SnapshotInfo> {
    return this.between(machine, () => this.#live(machine));
  }

  /** does something with a machine while none of its captures runs */
  between<T>({ plan: { name } }: LinuxMachine, work: () => Promise<T>): Promise<T> {
    return this.#captures.run(name, work);
  }

  /** captures a machine without processes: its volume becomes the layer, whatever is in it */
  async dead(plan: MachinePlan, record: MachineRecord): Promise<SnapshotInfo> {
    const { layers, snapshots, durable } = this.#options;
    const claim = layers.hold();
    try {
      const { id, snapshot } = await this.#draft(plan, record, { isFlushed: durable });
      const made = { id, size: snapshot.size, origin: plan.name, snapshot };
      await this.#withRoom(plan, record.spec.line, 0, () => layers.adopt(claim, plan.volume, made));
      await this.#secure(id);
      const measure = () => this.#measure(layers.volume(id), record);
      if (durable && layers.hasVolumes)
        return await snapshots.publish({ ...snapshot, size: (await measure()) ?? snapshot.size });
      await snapshots.publish(snapshot);
      snapshots.settle(snapshot.id, measure);
      return snapshot;
    } finally {
      await claim.release();
    }
  }

  /** captures a machine that ended without a snapshot; undefined when its files are gone */
  async salvage(plan: MachinePlan, record: MachineRecord): Promise<SnapshotInfo | undefined> {
    if (!record.ended) return undefined;
    if (record.ended.snapshot) return record.ended.snapshot;
    // A host that failed right after the volume was made may have lost the volume's content.
    if (isThere(join(plan.volume, "fs"))) {
      record.ended.snapshot = await this.dead(plan, record);
    } else {
      // a daemon that died between the rename and the record left a layer that knows where it came from
      const orphan = (await this.#options.layers.list()).find((layer) => layer.origin === plan.name);
      if (!orphan && this.#options.isReadOnly()) throw readOnlyError();
      if (!orphan) return undefined;
      record.ended.snapshot = await this.#adopted(record, orphan);
    }
    writeRecord(plan.folder, record);
    return record.ended.snapshot;
  }

  /** throws if the kernel could not write something of a layer; if captures are durable, the layer is on the disk then */
  async #secure(id: string): Promise<void> {
    const { layers, durable, requireWhole } = this.#options;
    // The kernel writes all of a volume to the disk before it copies it.
    if (durable) await (layers.hasVolumes ? layers.spare(id) : layers.sync());
    await requireWhole();
  }

  /** stops the machine while its volume is copied; a paused one stays frozen */
  async #live(machine: LinuxMachine): Promise<SnapshotInfo> {
    const { layers, snapshots, durable } = this.#options;
    const { plan, record } = machine;
    const isFlushed = durable || layers.hasVolumes;
    const claim = layers.hold();
    try {
      const snapshot = await frozen(machine, async () => {
        const { id, snapshot } = await this.#draft(plan, record, { isFlushed });
        const made = { id, size: snapshot.size, snapshot };
        await this.#withRoom(plan, record.spec.line, record.spec.limits.disk, () =>
          layers.capture(claim, plan.volume, made),
        );
        const size = await this.#measure(plan.volume, record);
        return { ...snapshot, size: size ?? snapshot.size };
      });
      if (durable && !layers.hasVolumes) await layers.sync();
      await this.#options.requireWhole();
      await snapshots.publish(snapshot);
      if (!isFlushed) snapshots.settle(snapshot.id, async () => undefined);
      return snapshot;
    } finally {
      await claim.release();
    }
  }

  /** the snapshot that an orphaned layer was made for; a layer of an older version does not record it */
  async #adopted(record: MachineRecord, layer: LayerInfo): Promise<SnapshotInfo> {
    const { snapshots, layers } = this.#options;
    // The daemon may have died before, or the disk may have failed.
    await this.#secure(layer.id);
    const known = recordIn(layer);
    if (known) {
      const published = (await snapshots.get(known.id)) ?? (await snapshots.publish(known));
      if (published.unflushed) snapshots.settle(known.id, async () => undefined);
      return published;
    }
    const chain = [layer.id, ...(record.snapshotLayers ?? [])];
    return snapshots.record({ ...origins(record), layers: chain, size: await layers.size(chain) });
  }

  /** the ids and the record of a snapshot that a volume is about to become */
  async #draft(
    plan: MachinePlan,
    record: MachineRecord,
    { isFlushed }: { isFlushed: boolean },
  ): Promise<{ id: string; snapshot: SnapshotRecord }> {
    const { volumes } = this.#options;
    const id = newLayerId();
    // where the kernel does not count bytes, walks the files, which takes longer the more there are
    const own = (await volumes.usage(plan.volume)) ?? (await volumes.measure(join(plan.volume, "fs")));
    const size = own + (await this.#inherited(record));
    const layers = [id, ...(record.snapshotLayers ?? [])];
    const draft = { ...origins(record), layers, size, ...(!isFlushed && { unflushed: true }) };
    return { id, snapshot: draftRecord(draft) };
  }

  /** a snapshot's size once all of it is on the disk; undefined where the kernel does not count bytes */
  async #measure(volume: string, record: MachineRecord): Promise<number | undefined> {
    const own = await this.#options.volumes.usage(volume);
    return own === undefined ? undefined : own + (await this.#inherited(record));
  }

  /** bytes that the volume held before the machine was booted */
  async #inherited({ volume, snapshotLayers = [] }: MachineRecord): Promise<number> {
    return (volume?.inherited ?? 0) + (await this.#options.layers.size(snapshotLayers));
  }

  /** a volume that is full to its limit must still take the few bytes that make it a layer */
  async #withRoom<T>(
    { volume }: MachinePlan,
    line: string | undefined,
    limit: number,
    use: () => Promise<T>,
  ): Promise<T> {
    const { volumes } = this.#options;
    const setLimit = async (bytes: number) => {
      await volumes.limit(volume, bytes);
      if (line !== undefined) await volumes.limitLine(volume, line, bytes);
    };
    try {
      return await use();
    } catch (error) {
      if (!isFull(error)) throw error;
      await setLimit(0);
      try {
        return await use();
      } finally {
        if (limit > 0) await setLimit(limit);
      }
    }
  }
}

/** throws where a failed store cannot tell */
function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

function origins(record: MachineRecord): Pick<SnapshotRecord, "image" | "whole"> {
  return { image: record.image.reference, whole: record.volume?.whole ?? false };
}

/** whether the volume's limit is reached; Node has no name for this error */
function isFull(error: unknown): boolean {
  return (error as NodeJS.ErrnoException)?.errno === -constants.errno.EDQUOT;
}

async function frozen<T>(machine: LinuxMachine, use: () => Promise<T>): Promise<T> {
  const { cgroup } = machine.plan;
  try {
    await freeze(cgroup, true);
    return await use();
  } finally {
    if (!machine.isPaused) await freeze(cgroup, false);
  }
}
