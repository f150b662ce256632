/**
 * Unpacks the layers of an image into the store, each checked against its digests.
 *
 * In a store with subvolumes the lowest layer is unpacked into an empty subvolume, and each further layer into a copy
 * of the one before, where whiteouts delete files. A copy shares everything that the layer leaves unchanged. So images
 * that begin with the same layers share these on the disk, names and data. The id of each step stands for all layers up
 * to it (`chain-…`), and steps that are in the store are not unpacked again.
 *
 * In a store without subvolumes a copy would cost its full size, so each layer is kept by itself (`sha256-…`), with
 * whiteouts in it, and the kernel merges them when a machine boots.
 */

import { createHash } from "node:crypto";
import { counted } from "../../../base/counted.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { ImagePart } from "../../../core/model/image.ts";
import { decompressed } from "../files/decompress.ts";
import type { FileSession } from "../files/file-session.ts";
import { extractTar } from "../files/tar-extract.ts";
import { type ImageStore, layersOf } from "../images/images.ts";
import type { Claim } from "../layers/claims.ts";
import type { LayerInfo } from "../layers/layer-record.ts";
import type { LayerStore } from "../layers/layers.ts";
import type { ContentLayer } from "./content.ts";
import { Counted, Devices, mostMembers, readLayer, type TarLimits, unpackTar } from "./layer-tar.ts";
import { unpackInThread } from "./unpack-in-thread.ts";

/** The inputs of an unpack, and its outputs. */
export interface UnpackJob {
  layers: LayerStore;
  claim: Claim;
  /** layers that are used without being read; others that are in the store must be shown to be had, see layersInReach() */
  inReach: ReadonlySet<string>;
  /** takes the ids of the layers that this job makes */
  made: string[];
  /** throws while the disk is short of room */
  requireRoom(): void;
  progress(sentence: string): void;
}

/** The files of an image in the store. */
export interface Unpacked {
  /** the layers to mount, topmost first; in a store with subvolumes a single one with everything */
  chain: string[];
  parts: ImagePart[];
}

/** most bytes of all unpacked layers of an image */
export const largestImage = 64 * 2 ** 30;
/** bytes between two checks of the room on the disk */
const lookEvery = 64 << 20;

export async function unpackLayers(job: UnpackJob, layers: ContentLayer[]): Promise<Unpacked> {
  const bytes = new Allowance(job);
  const parts: ImagePart[] = [];
  const ids = layerIds(job.layers, layers);
  for (const [index, layer] of layers.entries()) {
    const below = parts.at(-1)?.layer;
    const id = ids[index] ?? "";
    await job.claim.add(id);
    const there = await job.layers.get(id);
    if (!there) job.progress(`layer ${index + 1} of ${layers.length}: ${layer.diffId.slice(0, 12)}`);
    const info = there ?? (await unpackLayer(job, layer, { id, below, bytes }));
    if (there && !job.inReach.has(id) && !job.made.includes(id)) {
      await readLayer(layer, layer.open(), limitsOf(job, bytes));
    }
    parts.push({
      diffId: layer.diffId,
      ...(layer.digest !== undefined && { digest: layer.digest }),
      ...(layer.packedSize !== undefined && { packedSize: layer.packedSize }),
      size: info.size,
      layer: id,
    });
  }
  const chain = ids.reverse();
  return { parts, chain: job.layers.hasVolumes ? chain.slice(0, 1) : chain };
}

/** the layers that unpackLayers() would have to open */
export async function missingLayers<T extends Pick<ContentLayer, "diffId">>(
  layers: LayerStore,
  all: T[],
  inReach: ReadonlySet<string>,
): Promise<T[]> {
  const ids = layerIds(layers, all);
  const there = await Promise.all(ids.map(async (id) => inReach.has(id) && (await layers.get(id)) !== undefined));
  return all.filter((_, index) => !there[index]);
}

/**
 * the layers of images that this team, or everybody, may boot. An image that only names another layer of the store does not
 * get its files: a digest is no secret, so its maker must have the layer itself
 */
export async function layersInReach(images: Pick<ImageStore, "list">, owner: string | undefined): Promise<Set<string>> {
  const open = (await images.list()).filter((image) => image.owner === undefined || image.owner === owner);
  return new Set(open.flatMap((image) => [...layersOf(image), ...(image.parts ?? []).map(({ layer }) => layer)]));
}

/** the tar (compressed or not) of a whole root file system, as one layer */
export async function unpackRootfs(job: UnpackJob, tar: AsyncIterable<Uint8Array>): Promise<Unpacked> {
  const bytes = new Allowance(job);
  const plain = new Counted((count) => bytes.take(count));
  const fill = async (files: FileSession) => {
    const devices = new Devices();
    await extractTar(files, "/", plain.through(decompressed(tar)), {
      layer: true,
      isPlain: true,
      leaveOut: devices.leaveOut,
      takeHoles: (count) => bytes.take(count),
      mostMembers,
    });
    reportDevices(devices.count, job.progress);
    const diffId = plain.digest();
    return { id: job.layers.hasVolumes ? `chain-${diffId}` : `sha256-${diffId}`, size: plain.length };
  };
  const layer = await job.layers.grow(job.claim, undefined, fill);
  job.made.push(layer.id);
  return { chain: [layer.id], parts: [{ diffId: plain.digest(), size: plain.length, layer: layer.id }] };
}

async function unpackLayer(
  job: UnpackJob,
  layer: ContentLayer,
  { id, below, bytes }: { id: string; below: string | undefined; bytes: Allowance },
): Promise<LayerInfo> {
  const isOnto = job.layers.hasVolumes;
  const onto = isOnto && below !== undefined;
  const limits = limitsOf(job, bytes);
  const made = await job.layers.grow(job.claim, isOnto ? below : undefined, async (files, { directory, socket }) => {
    const file = isLarge(layer) && socket !== undefined ? await layer.file?.() : undefined;
    const { name, diffId, digest, packedSize, isChecked } = layer;
    const digests = { name, diffId, digest, packedSize, isChecked: isChecked ?? false };
    const { size, devices } =
      file && socket !== undefined
        ? await unpackInThread({ socket, directory, layer: digests, onto }, file, limits)
        : await unpackTar(files, digests, { source: layer.open(), onto, limits });
    reportDevices(devices, job.progress);
    await layer.used?.();
    return { id, size };
  });
  job.made.push(made.id);
  return made;
}

/** bytes of a layer's file from which on a thread of its own is worth starting */
const largeFrom = 4 << 20;

function isLarge({ packedSize = 0 }: ContentLayer): boolean {
  return packedSize >= largeFrom;
}

function limitsOf(job: UnpackJob, bytes: Allowance): TarLimits {
  const packed = new Allowance(job);
  return { take: (count) => bytes.take(count), takePacked: (count) => packed.take(count) };
}

function reportDevices(count: number, progress: (sentence: string) => void): void {
  if (count > 0) progress(`left out ${counted(count, "entry", "entries")} below /dev: a sandbox has a /dev of its own`);
}

/** of each layer, or of it and all below it: the same wherever these come from, and in no other order */
function layerIds({ hasVolumes }: LayerStore, layers: Pick<ContentLayer, "diffId">[]): string[] {
  if (!hasVolumes) return layers.map(({ diffId }) => `sha256-${diffId}`);
  let below: string | undefined;
  return layers.map(({ diffId }) => {
    const chain: string =
      below === undefined ? diffId : createHash("sha256").update(`${below} ${diffId}`).digest("hex");
    below = `chain-${chain}`;
    return below;
  });
}

/** The bytes that all layers together may still have. */
export class Allowance {
  readonly #job: Pick<UnpackJob, "requireRoom">;
  #taken = 0;
  #nextLook = lookEvery;

  constructor(job: Pick<UnpackJob, "requireRoom">) {
    this.#job = job;
  }

  take(count: number): void {
    this.#taken += count;
    if (this.#taken > largestImage) {
      throw new SandkeepError("limit", `Cannot import the image: it is larger than ${largestImage} bytes`);
    }
    if (this.#taken < this.#nextLook) return;
    this.#nextLook = this.#taken + lookEvery;
    this.#job.requireRoom();
  }
}
