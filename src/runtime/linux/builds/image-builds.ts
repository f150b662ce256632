/**
 * The parts of image builds that need no machine. The files after each step are an image whose name is the step's key.
 * Its owner is not a team, so no caller finds it by name. Images share the data of the layers they are copied from.
 *
 *   <store>/build-uploads/<key>  see uploads.ts
 *   <store>/build-steps/<key>   an empty file, which was touched when a build last used the step
 */

import { rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import type { ImageConventions } from "../../../core/model/conventions.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import { imageKey } from "../../../core/model/image.ts";
import type { BuildContext, ImageBuilds, ImageChange, NewImage } from "../../../core/ports/image-builds.ts";
import { checkImageName, type ImageRecord, type ImageStore, layersOf } from "../images/images.ts";
import type { Claim } from "../layers/claims.ts";
import { newLayerId } from "../layers/layer-record.ts";
import type { LayerStore } from "../layers/layers.ts";
import type { SnapshotStore } from "../layers/snapshots.ts";
import { importRootfs } from "../oci/import.ts";
import type { DiskRoom } from "../storage/disk-room.ts";
import { isMissing, makePrivate } from "../storage/json-file.ts";
import { receiveContext } from "./context.ts";
import { exportImage } from "./export.ts";
import { Uploads } from "./uploads.ts";

export interface ImageBuildsOptions {
  store: string;
  layers: LayerStore;
  images: ImageStore;
  snapshots: SnapshotStore;
  conventions: ImageConventions;
  room?: DiskRoom | undefined;
}

/** the owner of steps in the place of a team; no team has such an id */
export const stepsOwner = "build-steps";
const scratchName = "scratch";
/** most bytes of all files of a context */
const largestContext = 8 * 2 ** 30;

export class LinuxImageBuilds implements ImageBuilds {
  readonly #options: ImageBuildsOptions;
  readonly #folder: string;
  readonly #scratch: string;
  readonly #uploads: Uploads;

  constructor(options: ImageBuildsOptions) {
    this.#options = options;
    this.#folder = join(options.store, "build-steps");
    this.#scratch = join(options.store, "building");
    const requireRoom = () => options.room?.require("take the files of a build");
    this.#uploads = new Uploads({ folder: join(options.store, "build-uploads"), largest: largestContext, requireRoom });
  }

  checkName(name: string): void {
    checkImageName(name);
  }

  receive(tar: AsyncIterable<Uint8Array>, closed?: () => void): Promise<BuildContext> {
    const requireRoom = () => this.#options.room?.require("take the files of a build");
    return receiveContext(tar, { scratch: this.#scratch, largest: largestContext, requireRoom, closed });
  }

  keepUpload(key: string, tar: AsyncIterable<Uint8Array>): Promise<void> {
    return this.#uploads.keep(key, tar);
  }

  hasUpload(key: string): Promise<boolean> {
    return this.#uploads.has(key);
  }

  async openUpload(key: string): Promise<BuildContext | undefined> {
    const tar = await this.#uploads.open(key);
    return tar && this.receive(tar);
  }

  async find(step: string): Promise<string | undefined> {
    const { images, layers } = this.#options;
    const key = imageKey({ name: step, owner: stepsOwner });
    const image = await images.get(key);
    if (!image || !(await layers.get(image.base ?? image.layers[0] ?? ""))) return undefined;
    await this.#touch(step);
    return key;
  }

  async keep(step: string, snapshotId: string): Promise<string> {
    const { images, snapshots } = this.#options;
    const kept = await this.#withCopy(snapshotId, (image, files) => {
      const { env, user, cwd, roots } = image;
      return images.put({ name: step, owner: stepsOwner, env, user, cwd, roots, ...files, createdAt: Date.now() });
    });
    await this.#touch(step);
    await snapshots.delete(snapshotId);
    return imageKey(kept);
  }

  async scratch(): Promise<string> {
    const key = imageKey({ name: scratchName, owner: stepsOwner });
    if (await this.#options.images.get(key)) return key;
    const made = await importRootfs(this.#options, emptyTar(), { name: scratchName, owner: stepsOwner, node: false });
    return imageKey(made);
  }

  async publish(key: string, image: NewImage): Promise<ImageRecord> {
    checkImageName(image.name);
    const { images, layers: store } = this.#options;
    const from = await images.get(key);
    if (!from) throw new SandkeepError("not-found", `Cannot name the image "${image.name}": its files are gone`);
    const { layers, base, roots } = from;
    const claim = store.hold();
    try {
      for (const id of layersOf(from)) await claim.add(id);
      return await images.put({ ...image, layers, ...(base !== undefined && { base }), roots, createdAt: Date.now() });
    } finally {
      await claim.release();
    }
  }

  async publishSnapshot(snapshotId: string, names: Pick<NewImage, "name" | "owner">): Promise<ImageRecord> {
    checkImageName(names.name);
    return this.#withCopy(snapshotId, (image, files) => {
      const { env, user, cwd, config, roots } = image;
      return this.#options.images.put({ ...names, env, user, cwd, config, roots, ...files, createdAt: Date.now() });
    });
  }

  async diskOf(team: string, { without, key, layers: coming = [] }: ImageChange = {}): Promise<number> {
    const { images, layers } = this.#options;
    const all = await images.list();
    const more = key === undefined ? undefined : await images.get(key);
    const own = all.filter(({ owner, name }) => owner === team && name !== without);
    const hosts = new Set(all.filter(({ owner }) => owner === undefined).flatMap(layersOf));
    const ids = new Set([...(more ? [...own, more] : own).flatMap(layersOf), ...coming]);
    return layers.size([...ids].filter((id) => !hosts.has(id)));
  }

  async export(key: string, signal?: AbortSignal): Promise<Readable> {
    const { images, layers } = this.#options;
    const image = await images.get(key);
    if (!image) throw new SandkeepError("not-found", `Cannot export image "${key}": there is no such image`);
    const requireRoom = () => this.#options.room?.require("export an image");
    requireRoom();
    return exportImage({ images, layers, scratch: this.#scratch, requireRoom }, image, signal);
  }

  async prune(before: number): Promise<number> {
    const { images, snapshots } = this.#options;
    let count = 0;
    for (const image of await images.list()) {
      if (image.owner !== stepsOwner || image.name === scratchName) continue;
      const used = await stat(join(this.#folder, image.name)).catch(() => undefined);
      if ((used?.mtimeMs ?? image.createdAt) >= before) continue;
      await images.delete(imageKey(image));
      await rm(join(this.#folder, image.name), { force: true });
      count++;
    }
    if (count > 0) await snapshots.collect();
    return count + (await this.#uploads.prune(before));
  }

  /** an image with its own copy of the snapshot's layers: deleting the snapshot does not affect it */
  async #withCopy(
    snapshotId: string,
    use: (image: ImageRecord, files: { layers: string[]; base?: string }) => Promise<ImageRecord>,
  ): Promise<ImageRecord> {
    const { layers, snapshots } = this.#options;
    const claim: Claim = layers.hold();
    try {
      const { snapshot, image, layer } = await snapshots.ready(snapshotId, claim.add);
      const size = snapshot.size;
      const copy = await layers.grow(claim, layer, async () => ({ id: newLayerId(), size }));
      const below = snapshot.whole ? (await layers.sorted(image.layers)).host : image.layers;
      for (const id of below) await claim.add(id);
      return await use(image, { layers: [copy.id, ...below], ...(snapshot.whole && { base: copy.id }) });
    } finally {
      await claim.release();
    }
  }

  async #touch(step: string): Promise<void> {
    const path = join(this.#folder, step);
    const now = new Date();
    await utimes(path, now, now).catch(async (error) => {
      if (!isMissing(error)) throw error;
      await makePrivate(this.#folder);
      await writeFile(path, "");
    });
  }
}

/** two empty blocks */
async function* emptyTar(): AsyncGenerator<Uint8Array> {
  yield Buffer.alloc(1024);
}
