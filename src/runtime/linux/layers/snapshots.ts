/**
 * Snapshots on disk: <store>/snapshots/<id>.json names the layer in the LayerStore that a snapshot is, and its image.
 *
 * Records of older versions name several layers that lie above those of the image. They are merged into one when a
 * machine first boots from them; the files get new inode numbers then, once.
 */

import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { SharedRun } from "../../../base/concurrency/single-flight.ts";
import { isSandkeepError, SandkeepError } from "../../../core/model/errors.ts";
import type { SnapshotInfo, Snapshots } from "../../../core/ports/runtime.ts";
import type { DiffOptions, TreeDiff, TreePlace } from "../../../core/ports/tree-diff.ts";
import type { FileSession } from "../files/file-session.ts";
import type { ImageRecord, ImageStore } from "../images/images.ts";
import { jsonNames, makePrivate, readJson, writeJson } from "../storage/json-file.ts";
import { lastLoss, setAside, tellMadeAgain } from "../storage/kept-record.ts";
import type { Claim } from "./claims.ts";
import type { LayerInfo } from "./layer-record.ts";
import type { LayerStore } from "./layers.ts";
import { compareTrees, Tree } from "./tree-comparison.ts";

export interface SnapshotRecord extends SnapshotInfo {
  /**
   * whether its one layer holds everything but the host's directories. Otherwise the layers lie above those of the
   * image: so in every store without subvolumes, and in records of older versions
   */
  whole: boolean;
  /** whether its files may be in the kernel's memory only: it was acknowledged before they were flushed */
  unflushed?: boolean | undefined;
}

export type SnapshotDraft = Pick<SnapshotRecord, "image" | "layers" | "size" | "whole" | "unflushed">;

/** a record with a new id, not written yet */
export function draftRecord(draft: SnapshotDraft): SnapshotRecord {
  return { id: randomBytes(14).toString("hex"), ...draft, createdAt: Date.now() };
}

/** the record in a layer that was made for a snapshot */
export function recordIn(layer: LayerInfo): SnapshotRecord | undefined {
  return snapshotFile.safeParse(layer.snapshot).data;
}

/** a snapshot to boot from, the image it began with, and its one layer */
export interface ReadySnapshot {
  snapshot: SnapshotRecord;
  image: ImageRecord;
  layer: string;
}

/** Layers and images that machines need, besides those of snapshots and image names. */
export interface MachineNeeds {
  layers: Iterable<string>;
  /** image references */
  images: Iterable<string>;
}

export interface SnapshotStoreOptions {
  store: string;
  layers: LayerStore;
  images: ImageStore;
  /** the needs of every machine that runs or has files left on the disk; called at each collection */
  machines: () => MachineNeeds | Promise<MachineNeeds>;
  /** a machine that runs; default: there are none */
  live?: (id: string) => { plan: { volume: string }; record: { image: { reference: string } } } | undefined;
}

export class SnapshotStore implements Snapshots {
  readonly #folder: string;
  readonly #layers: LayerStore;
  readonly #images: ImageStore;
  readonly #machines: SnapshotStoreOptions["machines"];
  readonly #live: NonNullable<SnapshotStoreOptions["live"]>;
  /** snapshots whose size may still change, by id */
  readonly #settling = new Map<string, Promise<void>>();
  /** snapshots of older versions whose layers are being merged, by id */
  readonly #merging = new Map<string, Promise<SnapshotRecord>>();
  /** snapshots whose files may have been lost before they were flushed, by id */
  readonly #suspects = new Set<string>();
  #unflushed = false;
  readonly #flushing = new SharedRun<void>();
  readonly #collections = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor({ store, layers, images, machines, live = () => undefined }: SnapshotStoreOptions) {
    this.#folder = join(store, "snapshots");
    this.#layers = layers;
    this.#images = images;
    this.#machines = machines;
    this.#live = live;
  }

  /**
   * Restores from their layers the records that are damaged, or that a host restart or a failed store has cost. A
   * damaged record that is in no layer is set aside, so that it blocks nothing else.
   */
  async open({ isNewlyMounted = false } = {}): Promise<void> {
    await makePrivate(this.#folder);
    for (const layer of await this.#layers.list()) {
      const record = recordIn(layer);
      if (!record) continue;
      const there = await this.get(record.id).catch(() => "damaged" as const);
      const isLost = there === undefined && (isNewlyMounted || layer.bootId !== this.#layers.bootId);
      if (isLost || there === "damaged") await writeJson(this.#path(record.id), record);
      if (there === "damaged") tellMadeAgain(this.#path(record.id), "damaged");
    }
    for (const id of await jsonNames(this.#folder)) {
      const isDamaged = await this.get(id).then(
        () => false,
        (error: unknown) => isSandkeepError(error),
      );
      if (isDamaged) setAside(this.#path(id));
    }
    await this.#findSuspects(isNewlyMounted);
  }

  async suspects(): Promise<string[]> {
    return [...this.#suspects];
  }

  async trust(id: string): Promise<void> {
    const snapshot = await this.get(id);
    if (snapshot) await writeJson(this.#path(id), { ...snapshot, unflushed: undefined });
    this.#suspects.delete(id);
  }

  /** flushes the snapshots that an earlier daemon could not: if the store was not mounted anew, they are in memory */
  async #findSuspects(isNewlyMounted: boolean): Promise<void> {
    for (const { id, layers, unflushed } of await this.list()) {
      if (!unflushed) continue;
      const layer = await this.#layers.get(layers[0] ?? "").catch(() => undefined);
      if (isNewlyMounted || layer?.bootId !== this.#layers.bootId) this.#suspects.add(id);
      else this.settle(id, async () => undefined);
    }
  }

  /** records a snapshot; only machines of older versions have several layers */
  async record(draft: SnapshotDraft): Promise<SnapshotRecord> {
    return this.publish(draftRecord(draft));
  }

  /**
   * as record, for a snapshot whose layer already contains the record. The file is not flushed: after a power loss it
   * is restored from there
   */
  async publish(record: SnapshotRecord): Promise<SnapshotRecord> {
    await writeJson(this.#path(record.id), record, { durable: false });
    return record;
  }

  async get(id: string): Promise<SnapshotRecord | undefined> {
    return isSnapshotId(id) ? readJson(this.#path(id), snapshotFile) : undefined;
  }

  async settled(id: string): Promise<SnapshotRecord | undefined> {
    await this.#settling.get(id);
    return this.get(id);
  }

  /** measures a snapshot again once all of it is on the disk; files deleted at the last moment no longer count then */
  settle(id: string, measure: () => Promise<number | undefined>): void {
    const settling = this.#settle(id, measure)
      // If it cannot be measured, the estimate stays.
      .catch(() => undefined)
      .finally(() => this.#settling.delete(id));
    this.#settling.set(id, settling);
  }

  async list(): Promise<SnapshotRecord[]> {
    const snapshots = await Promise.all((await jsonNames(this.#folder)).map((id) => this.get(id)));
    return snapshots.filter((snapshot) => snapshot !== undefined).sort((a, b) => a.createdAt - b.createdAt);
  }

  async restore(ids: string[]): Promise<string[]> {
    if (ids.length === 0) return [];
    const layers = await this.#layers.list();
    const [there, wanted] = [new Set(layers.map(({ id }) => id)), new Set(ids)];
    const restored: string[] = [];
    for (const record of layers.map(recordIn)) {
      if (!record || !wanted.has(record.id) || !record.layers.every((layer) => there.has(layer))) continue;
      await writeJson(this.#path(record.id), record);
      tellMadeAgain(this.#path(record.id), "missing");
      restored.push(record.id);
    }
    return restored;
  }

  async delete(id: string): Promise<void> {
    await this.#must(id, "delete");
    await rm(this.#path(id), { force: true });
  }

  /** a snapshot that machines can boot from; claims its layer before checking that it exists */
  async ready(id: string, claim: (layer: string) => Promise<void>): Promise<ReadySnapshot> {
    const image = await this.#imageOf(await this.#must(id, "boot from"));
    const snapshot = await this.#merged(id, image);
    const [layer = ""] = snapshot.layers;
    await claim(layer);
    return { snapshot, image, layer };
  }

  async compare(from: TreePlace, to: TreePlace, options: DiffOptions): Promise<TreeDiff> {
    const claim = this.#layers.hold();
    const trees: Tree[] = [];
    try {
      const [first, second] = [await this.#place(from, claim), await this.#place(to, claim)];
      const [before, after] = [new Tree(first.open), new Tree(second.open)];
      trees.push(before, after);
      // Without subvolumes, the files of the images are in other layers.
      if (!this.#layers.hasVolumes && first.image !== second.image)
        throw new SandkeepError("unsupported", "Cannot compare the files: they began with different images");
      return await compareTrees(before, after, options);
    } finally {
      for (const tree of trees) tree.close();
      await claim.release();
    }
  }

  async #place(place: TreePlace, claim: Claim): Promise<{ open: () => Promise<FileSession>; image: string }> {
    if ("snapshot" in place) {
      const { layer, snapshot } = await this.ready(place.snapshot, (id) => claim.add(id));
      return { open: () => this.#layers.filesAt(layer), image: snapshot.image };
    }
    const machine = this.#live(place.machine);
    if (!machine) throw new SandkeepError("not-found", `Cannot read the files of machine "${place.machine}": it ended`);
    return { open: () => this.#layers.filesAt(machine.plan), image: machine.record.image.reference };
  }

  /** deletes nothing once the store is closed: records that are unmounted would seem to be missing */
  async collect(): Promise<string[]> {
    if (this.#isClosed) return [];
    const collection = this.#collect();
    this.#collections.add(collection);
    return collection.finally(() => this.#collections.delete(collection));
  }

  /** resolves when nothing uses the records any more: collections are over, and snapshots are on the disk */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#collections);
    await this.flushed();
  }

  async #collect(): Promise<string[]> {
    const needs = async () => {
      const machines = await this.#machines();
      const snapshots = await this.list();
      const lost = await this.#lost();
      return {
        layers: [...machines.layers, ...snapshots.flatMap((snapshot) => snapshot.layers), ...lost.layers],
        images: [...machines.images, ...snapshots.map((snapshot) => snapshot.image), ...lost.images],
      };
    };
    await this.#images.collect(
      async () => (await needs()).images,
      () => this.#layers.claimed(),
    );
    return this.#layers.collect(async () => {
      const { layers, images } = await needs();
      return new Set([...layers, ...(await this.#images.layersInUse(images))]);
    });
  }

  /** the layers and images that records set aside may have named, kept for the case that the records are restored */
  async #lost(): Promise<{ layers: string[]; images: string[] }> {
    const lastLost = Math.max(await lastLoss(this.#folder), await this.#images.lastLoss());
    if (lastLost === 0) return { layers: [], images: [] };
    const layers = (await this.#layers.list()).filter(({ createdAt }) => createdAt <= lastLost);
    return { layers: layers.map(({ id }) => id), images: await this.#images.versions() };
  }

  /** resolves when all snapshots recorded so far are on the disk, and measured */
  async flushed(): Promise<void> {
    // What could not be flushed stays marked as such.
    await this.#flushing.current?.catch(() => undefined);
    await Promise.all(this.#settling.values());
  }

  async #settle(id: string, measure: () => Promise<number | undefined>): Promise<void> {
    await this.#flushed();
    const size = await measure();
    const snapshot = await this.get(id);
    // Otherwise the snapshot was deleted meanwhile.
    if (snapshot) await this.publish({ ...snapshot, size: size ?? snapshot.size, unflushed: undefined });
  }

  async #imageOf({ id, image }: SnapshotRecord): Promise<ImageRecord> {
    const there = await this.#images.get(image);
    if (there) return there;
    throw new SandkeepError("not-found", `Cannot boot from snapshot "${id}": its image "${image}" is gone`);
  }

  /** the snapshot merged into one layer, ready for this store to boot from */
  async #merged(id: string, image: ImageRecord): Promise<SnapshotRecord> {
    // The two that rewrite this record must not run at the same time.
    await this.#settling.get(id);
    const merging = this.#merging.get(id) ?? this.#merge(id, image).finally(() => this.#merging.delete(id));
    this.#merging.set(id, merging);
    return merging;
  }

  async #merge(id: string, image: ImageRecord): Promise<SnapshotRecord> {
    const { hasVolumes } = this.#layers;
    const snapshot = await this.#must(id, "boot from");
    if (snapshot.layers.length === 1 && (snapshot.whole || !hasVolumes)) return snapshot;
    const claim = await this.#layers.claim();
    try {
      for (const layer of [...snapshot.layers, ...image.layers]) await claim.add(layer);
      const { own, host } = await this.#layers.sorted(image.layers);
      const chain = hasVolumes ? [...snapshot.layers, ...own] : snapshot.layers;
      const bottom = hasVolumes && host.length === 0;
      const flat = await this.#layers.flatten(claim, chain, { bottom, size: snapshot.size });
      const merged = { ...snapshot, layers: [flat.id], whole: hasVolumes };
      // If it was deleted meanwhile, it stays deleted, and the new layer is collected.
      if (await this.get(snapshot.id)) await writeJson(this.#path(snapshot.id), merged);
      return merged;
    } finally {
      await claim.release();
    }
  }

  async #must(id: string, verb: string): Promise<SnapshotRecord> {
    const snapshot = await this.get(id);
    if (!snapshot) throw new SandkeepError("not-found", `Cannot ${verb} snapshot "${id}": there is no such snapshot`);
    return snapshot;
  }

  /** flushes the store, once for all callers that wait meanwhile */
  async #flushed(): Promise<void> {
    this.#unflushed = true;
    await this.#flushing.run(() => this.#flushAll());
  }

  async #flushAll(): Promise<void> {
    while (this.#unflushed) {
      this.#unflushed = false;
      await this.#layers.sync();
    }
  }

  #path(id: string): string {
    return join(this.#folder, `${id}.json`);
  }
}

const snapshotFile = z.object({
  id: z.string(),
  image: z.string(),
  layers: z.array(z.string()),
  size: z.number(),
  createdAt: z.number(),
  whole: z.boolean().default(false),
  unflushed: z.boolean().optional(),
});

function isSnapshotId(id: string): boolean {
  return /^[0-9a-f]{28}$/.test(id);
}
