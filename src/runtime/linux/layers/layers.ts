/**
 * The layers that machines boot from: directories that never change once they are published. A layer of the host is
 * mounted read-only below a machine's own volume; from any other layer, the volume begins as a writable copy.
 *
 *   <store>/layers/<id>/{fs/, layer.json}   a layer; on btrfs a subvolume
 *   <store>/empty/                          an empty directory to mount below complete volumes; on btrfs a subvolume
 *   <store>/building/<tag>/                 an unfinished layer, of the process that the tag names
 *   <store>/spares/<id>/                    see spares.ts
 *   <store>/trash/<tag>/                    see trash.ts
 *   <store>/claims/<tag>.json               see claims.ts
 *
 * Untrusted code wrote everything below fs/, so this code never uses a path below it: file sessions that see nothing
 * else do that. A layer may also be a directory of the host ("path"), which is never written.
 */

import { existsSync, renameSync, statSync } from "node:fs";
import { mkdir, readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { FileSession } from "../files/file-session.ts";
import { hostBootId } from "../host/boot-id.ts";
import { isMissing, makePrivate, readJson, syncDirectory, writeJson } from "../storage/json-file.ts";
import { fileSystemOf } from "../storage/storage.ts";
import { Trash } from "../storage/trash.ts";
import { type Claim, Claims, isTagAlive, processTag } from "./claims.ts";
import { type FillPlace, isLayerId, type LayerInfo, layerFile, type MadeLayer, newLayerId } from "./layer-record.ts";
import { canShareFrom, SharedLayers } from "./shared-layers.ts";
import { Spares } from "./spares.ts";
import { copyVolume, createVolume, unlessThere } from "./volume-copies.ts";

/** The operations that need the launcher: the kernel's volumes, and the files of layers. Paths are absolute. */
export interface LayerTools {
  createVolume(path: string): Promise<void>;
  deleteVolume(path: string): Promise<void>;
  snapshotVolume(from: string, to: string, limit?: number): Promise<void>;
  /** a session for file requests below a directory, as root, that reaches nothing above it */
  filesAt(directory: string): Promise<FileSession>;
  /** the socket on which other threads open such sessions themselves; undefined if they cannot */
  readonly filesSocket?: string | undefined;
  /** resolves when all data of the path's file system is on the disk */
  sync(path: string): Promise<void>;
  /** merges layers into an empty directory; the result is on the disk when this resolves */
  flatten(layersTopmostFirst: string[], into: string): Promise<void>;
}

export interface FlattenOptions {
  bottom?: boolean;
  /** bytes for its record; default those of all layers together */
  size?: number;
}

/** the layers that hide files of the host: see host-masks.ts */
export interface Masks {
  above(directories: readonly string[]): Promise<string[]>;
}

export interface LayerStoreOptions {
  /** default: nothing is hidden */
  masks?: Masks;
  /** throws if the kernel could not write some data of the store; default: does not ask */
  requireWhole?: () => Promise<void>;
  /** whether the store has subvolumes; default false */
  volumes?: boolean;
  /** the id of the host's current boot; default the kernel's */
  bootId?: string;
  /** a folder for layers that all machines read through one cache: see shared-layers.ts; default: no such layers */
  shared?: string;
}

export class LayerStore {
  readonly #layers: string;
  readonly #building: string;
  readonly #trash: Trash;
  readonly #tools: LayerTools;
  readonly #masks: Masks | undefined;
  readonly #requireWhole: () => Promise<void>;
  readonly #claims: Claims;
  /** whether the store has subvolumes, so that layers are copied in constant time */
  readonly hasVolumes: boolean;
  /** an empty directory, to be mounted below volumes that are complete */
  readonly empty: string;
  /** the id of the host's current boot: of files made in an earlier boot, only flushed data is left */
  readonly bootId: string;
  readonly #spares: Spares;
  readonly #shared: SharedLayers | undefined;
  /** whether each of the host's directories is on another file system */
  readonly #elsewhere = new Map<string, boolean>();
  readonly #known = new Map<string, LayerInfo>();

  constructor(store: string, tools: LayerTools, options: LayerStoreOptions = {}) {
    this.hasVolumes = options.volumes ?? false;
    this.bootId = options.bootId ?? hostBootId();
    this.#masks = options.masks;
    this.#requireWhole = options.requireWhole ?? (async () => undefined);
    this.empty = join(store, "empty");
    this.#layers = join(store, "layers");
    this.#building = join(store, "building");
    this.#trash = new Trash(join(store, "trash"), tools);
    this.#tools = tools;
    this.#claims = new Claims(join(store, "claims"));
    const { shared } = options;
    const canShare = this.hasVolumes && shared !== undefined && canShareFrom(shared, store);
    this.#shared = canShare ? new SharedLayers(shared, tools) : undefined;
    this.#spares = new Spares({
      folder: join(store, "spares"),
      copy: (from, to) => copyVolume(this.#tools, from, to),
      discard: (volume) => this.#trash.discard(volume),
    });
  }

  /** makes the folders, and deletes the unfinished layers of dead processes */
  async open(): Promise<void> {
    for (const folder of [this.#layers, this.#building]) await makePrivate(folder);
    await this.#trash.open();
    await this.#claims.open();
    if (!existsSync(this.empty)) await createVolume(this.#tools, this.empty).catch(unlessThere);
    for (const tag of await readdir(this.#building)) {
      if (!isTagAlive(tag)) await this.#trash.discard(join(this.#building, tag));
    }
    await this.#spares.open((id) => existsSync(join(this.#layers, id)));
    await this.#shared?.open((id) => existsSync(join(this.#layers, id)));
    this.#trash.empty();
  }

  /** stops making spare copies; resolves when the pending ones are done */
  async close(): Promise<void> {
    await this.#spares.close();
    await this.settled();
  }

  /** a claim that other processes see */
  claim(): Promise<Claim> {
    return this.#claims.claim();
  }

  /** a claim that only this process sees */
  hold(): Claim {
    return this.#claims.hold();
  }

  async get(id: string): Promise<LayerInfo | undefined> {
    const known = this.#known.get(id);
    // Another process may have collected the layer since.
    if (known && existsSync(join(this.#layers, id))) return known;
    this.#known.delete(id);
    const layer = isLayerId(id) ? await readJson(join(this.#layers, id, "layer.json"), layerFile) : undefined;
    if (layer) this.#known.set(id, layer);
    return layer;
  }

  async list(): Promise<LayerInfo[]> {
    // A layer whose record is damaged cannot be used, but must not block the others.
    const layers = await Promise.all((await readdir(this.#layers)).map((id) => this.get(id).catch(() => undefined)));
    return layers.filter((layer) => layer !== undefined);
  }

  /**
   * the directories of layers, for mounting or merging, with the masks above those of the host; fails if a layer is
   * missing
   */
  async lowerDirs(ids: readonly string[]): Promise<string[]> {
    const directories = await Promise.all(ids.map((id) => this.#directory(id)));
    const isHosts = (id: string) => this.#known.get(id)?.path !== undefined;
    const hosts = directories.filter((_, index) => isHosts(ids[index] ?? ""));
    if (hosts.length === 0 || !this.#masks) return directories;
    directories.splice(ids.findIndex(isHosts), 0, ...(await this.#masks.above(hosts)));
    return directories;
  }

  /** the path of a layer's volume in the store */
  readonly volume = (id: string): string => join(this.#layers, id);

  /**
   * Makes a machine's volume as a copy of the layer. A layer that is booted from repeatedly, or with `often`, gets a
   * spare copy for the next machine. Resolves with whether the volume has its limit already, which a spare lacks.
   */
  async branch(id: string, to: string, { often, limit }: { often: boolean; limit: number }): Promise<boolean> {
    const isNew = !this.#spares.take(id, to);
    if (isNew) await copyVolume(this.#tools, this.volume(id), to, limit);
    if (this.hasVolumes && (often || isNew)) this.#spares.restock(id, this.volume(id));
    return isNew;
  }

  /** a copy of a layer for the machine that boots from it next; the layer is on the disk when this resolves */
  async spare(id: string): Promise<void> {
    await this.#spares.add(id, this.volume(id));
  }

  /** the files of a layer, or of a machine's volume */
  async filesAt(at: string | { volume: string }): Promise<FileSession> {
    return this.#tools.filesAt(typeof at === "string" ? await this.#directory(at) : join(at.volume, "fs"));
  }

  /**
   * the ids of layers on the store's file system, and of host directories on other file systems, each topmost first;
   * only the latter may lie below a volume
   */
  async sorted(ids: readonly string[]): Promise<{ own: string[]; host: string[] }> {
    const layers = await Promise.all(ids.map((id) => this.get(id)));
    const isHost = (_: string, index: number) => this.#isElsewhere(layers[index]);
    return { own: ids.filter((id, index) => !isHost(id, index)), host: ids.filter(isHost) };
  }

  /** bytes on the disk of several layers together; a host's directory counts as 0 */
  async size(ids: readonly string[]): Promise<number> {
    const layers = await Promise.all(ids.map((id) => this.get(id)));
    return layers.reduce((sum, layer) => sum + (layer?.size ?? 0), 0);
  }

  /**
   * a new layer, filled by `build`; if that fails, nothing of it stays. `build` may return the id, if it learns it only
   * then; an existing layer of that id is used instead
   */
  async create(claim: Claim, build: (files: FileSession) => Promise<string | undefined>): Promise<LayerInfo> {
    return this.#build(claim, (directory) =>
      this.#filled(directory, async (files) => {
        const id = await build(files);
        const { bytes } = await files.usage("/");
        return { id: id ?? newLayerId(), size: bytes };
      }),
    );
  }

  /**
   * a complete layer that begins as a copy of another one, or empty. `build` fills it, and returns its id and how many
   * bytes it added. In a store with subvolumes it shares with the other all files that `build` leaves unchanged
   */
  async grow(
    claim: Claim,
    from: string | undefined,
    build: (files: FileSession, place: FillPlace) => Promise<{ id: string; size: number }>,
  ): Promise<LayerInfo> {
    return this.#build(claim, (directory) => this.#filled(directory, build), from);
  }

  /** one layer with the same content as several, topmost first; with `bottom`, no layer will ever lie below it */
  async flatten(claim: Claim, ids: readonly string[], options: FlattenOptions = {}): Promise<LayerInfo> {
    for (const id of ids) {
      if (!this.#isElsewhere(await this.get(id))) continue;
      throw new SandkeepError("invalid", `Cannot flatten layer "${id}": it is a directory of the host`);
    }
    const layers = await this.lowerDirs(ids);
    return this.#build(claim, async (directory) => {
      await this.#tools.flatten(options.bottom ? [...layers, await this.#nothing(directory)] : layers, directory);
      return { id: newLayerId(), size: options.size ?? (await this.size(ids)) };
    });
  }

  /** turns a machine's volume, which holds fs/, into a layer: a rename, whatever is in it */
  async adopt(claim: Claim, volume: string, made: MadeLayer): Promise<LayerInfo> {
    const layer = await this.#note(claim, volume, made);
    renameSync(volume, join(this.#layers, layer.id));
    this.#known.set(layer.id, layer);
    return layer;
  }

  /** as adopt, with a copy: the machine keeps its volume. On btrfs the layer is on the disk when this resolves */
  async capture(claim: Claim, volume: string, made: MadeLayer): Promise<LayerInfo> {
    const layer = await this.#note(claim, volume, made);
    // The copy contains its record from the start; a copy that failed half way is under another name.
    const copy = join(this.#building, processTag());
    try {
      await copyVolume(this.#tools, volume, this.hasVolumes ? join(this.#layers, layer.id) : copy);
      if (!this.hasVolumes) renameSync(copy, join(this.#layers, layer.id));
    } catch (error) {
      await this.#trash.discard(copy);
      throw error;
    }
    this.#known.set(layer.id, layer);
    return layer;
  }

  /** writes a layer's record into a volume, without a flush: the kernel flushes the whole volume before it copies it */
  async #note(claim: Claim, volume: string, made: MadeLayer): Promise<LayerInfo> {
    const layer: LayerInfo = { ...made, createdAt: Date.now(), bootId: this.bootId };
    await claim.add(layer.id);
    await writeJson(join(volume, "layer.json"), layer, { durable: false });
    return layer;
  }

  /** a directory of the host as a layer */
  async addPath(claim: Claim, id: string, path: string): Promise<LayerInfo> {
    if (!isLayerId(id)) throw new SandkeepError("invalid", `Cannot make layer "${id}": that is no id`);
    await claim.add(id);
    const layer: LayerInfo = { id, createdAt: Date.now(), size: 0, path };
    await makePrivate(join(this.#layers, id));
    await writeJson(join(this.#layers, id, "layer.json"), layer);
    this.#known.set(id, layer);
    return layer;
  }

  /** whether this store can have shared layers */
  get canShare(): boolean {
    return this.#shared !== undefined;
  }

  /** a layer that all machines read through one cache, filled by `build` if it is missing */
  async share(claim: Claim, id: string, build: (folder: string) => Promise<void>): Promise<LayerInfo> {
    if (!this.#shared)
      throw new SandkeepError("unsupported", `Cannot share layer "${id}": the store has no place for it`);
    // The record comes first: open() deletes a directory without one.
    const layer = await this.addPath(claim, id, this.#shared.path(id));
    await this.#shared.make(id, build);
    return layer;
  }

  /** deletes layers that were published but never recorded, because their job failed */
  async discard(ids: readonly string[]): Promise<void> {
    const claimed = await this.claimed();
    for (const id of ids.filter((id) => !claimed.has(id))) await this.#remove(id);
    this.#trash.empty();
  }

  /** layers that are being read, or that a record is about to name */
  claimed(): Promise<Set<string>> {
    return this.#claims.claimed();
  }

  /**
   * Deletes the layers that are not in use, and returns their ids. The order keeps it safe beside other processes: a
   * layer found here is claimed, or its claim was released after its record was written.
   */
  async collect(inUse: () => Promise<Set<string>>): Promise<string[]> {
    const candidates = await readdir(this.#layers);
    const wanted = async () => new Set([...(await this.claimed()), ...(await inUse())]);
    const before = await wanted();
    const moved = new Map<string, string>();
    for (const id of candidates.filter((id) => !before.has(id))) {
      const trash = await this.#remove(id);
      if (trash !== undefined) moved.set(id, trash);
    }
    // A process that claimed a layer between our check and the rename relies on it, even if a record names it by now.
    const after = moved.size > 0 ? await wanted() : before;
    for (const [id, trash] of moved) {
      if (after.has(id)) await rename(trash, join(this.#layers, id)).catch(() => this.#trash.discard(trash));
    }
    const deleted = [...moved.keys()].filter((id) => !after.has(id));
    for (const id of deleted) await this.#shared?.remove(id);
    this.#trash.empty();
    return deleted;
  }

  /** resolves when everything in the store is on the disk */
  async sync(): Promise<void> {
    await this.#tools.sync(this.#layers);
    await this.#requireWhole();
  }

  /** resolves when everything in the trash is deleted */
  settled(): Promise<void> {
    return this.#trash.settled();
  }

  async #build(
    claim: Claim,
    fill: (directory: string) => Promise<{ id: string; size: number }>,
    from?: string,
  ): Promise<LayerInfo> {
    const volume = join(this.#building, processTag());
    const directory = join(volume, "fs");
    try {
      if (from !== undefined) await copyVolume(this.#tools, this.volume(from), volume);
      else {
        await createVolume(this.#tools, volume);
        await mkdir(directory, { mode: 0o755 });
      }
      const { id, size } = await fill(directory);
      return await this.#publish(claim, volume, { id, createdAt: Date.now(), size });
    } catch (error) {
      await this.#trash.discard(volume);
      throw error;
    }
  }

  /** the result of `build`, once all its writes are on the disk */
  async #filled<T>(directory: string, build: (files: FileSession, place: FillPlace) => Promise<T>): Promise<T> {
    const files = await this.#tools.filesAt(directory);
    try {
      const made = await build(files, { directory, socket: this.#tools.filesSocket });
      await this.#tools.sync(directory);
      await this.#requireWhole();
      return made;
    } finally {
      files.close();
    }
  }

  /** an empty layer beside the one that is built, to mark that nothing is below it */
  async #nothing(directory: string): Promise<string> {
    const path = join(directory, "..", "nothing");
    await mkdir(path, { mode: 0o755 });
    const files = await this.#tools.filesAt(path);
    try {
      await files.setAttribute("/", "trusted.overlay.opaque", Buffer.from("y"));
    } finally {
      files.close();
    }
    return path;
  }

  async #publish(claim: Claim, volume: string, layer: LayerInfo): Promise<LayerInfo> {
    if (!isLayerId(layer.id)) throw new SandkeepError("invalid", `Cannot make layer "${layer.id}": that is no id`);
    await claim.add(layer.id);
    await writeJson(join(volume, "layer.json"), layer);
    const there = await this.get(layer.id);
    if (there) {
      await this.#trash.discard(volume);
      return there;
    }
    await rename(volume, join(this.#layers, layer.id));
    await syncDirectory(this.#layers);
    this.#known.set(layer.id, layer);
    return layer;
  }

  async #directory(id: string): Promise<string> {
    const layer = await this.get(id);
    const directory = layer && (layer.path ?? join(this.#layers, id, "fs"));
    if (!directory) throw new SandkeepError("not-found", `Cannot boot from layer "${id}": it is not in the store`);
    if (!statSync(directory, { throwIfNoEntry: false })?.isDirectory()) {
      this.#known.delete(id);
      throw new SandkeepError("not-found", `Cannot boot from layer "${id}": "${directory}" is not a directory`);
    }
    return directory;
  }

  /** whether it is a directory of the host on another file system. One on the store's own btrfs can share its data */
  #isElsewhere(layer: LayerInfo | undefined): boolean {
    if (layer?.path === undefined) return false;
    const known = this.#elsewhere.get(layer.path);
    const isElsewhere = known ?? (!this.hasVolumes || fileSystemOf(layer.path) !== fileSystemOf(this.#layers));
    this.#elsewhere.set(layer.path, isElsewhere);
    return isElsewhere;
  }

  /** takes a layer out of the store; returns its new path, or undefined if another process was faster */
  async #remove(id: string): Promise<string | undefined> {
    this.#known.delete(id);
    await this.#spares.drop(id);
    const moved = this.#trash.newPath();
    try {
      await rename(join(this.#layers, id), moved);
      return moved;
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }
}
