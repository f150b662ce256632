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
import { refusal } from "./manifest.ts";

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
/** most files and directories of one layer */
const mostMembers = 4_000_000;
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
    if (there && !job.inReach.has(id) && !job.made.includes(id)) await readLayer(job, layer, bytes);
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
  const plain = new Counted(new Allowance(job));
  const fill = async (files: FileSession) => {
    const devices = new Devices();
    await extractTar(files, "/", plain.through(decompressed(tar)), {
      layer: true,
      isPlain: true,
      leaveOut: devices.leaveOut,
      mostMembers,
    });
    devices.report(job.progress);
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
  const onto = job.layers.hasVolumes;
  const fill = async (files: FileSession) => {
    const { tar, check } = checkedTar(job, layer, bytes);
    const devices = new Devices();
    await extractTar(files, "/", tar, {
      layer: true,
      oci: true,
      isPlain: true,
      onto: onto && below !== undefined,
      leaveOut: devices.leaveOut,
      mostMembers,
    });
    devices.report(job.progress);
    return { id, size: check() };
  };
  const made = await job.layers.grow(job.claim, onto ? below : undefined, fill);
  job.made.push(made.id);
  return made;
}

/** only sees that it can be had, and is what its digests say */
async function readLayer(job: UnpackJob, layer: ContentLayer, bytes: Allowance): Promise<void> {
  const { tar, check } = checkedTar(job, layer, bytes);
  for await (const _ of tar);
  check();
}

/** the plain tar of a layer; `check` refuses it once it has been read, or says how long it is */
function checkedTar(job: UnpackJob, layer: ContentLayer, bytes: Allowance) {
  const packed = layer.isChecked ? undefined : new Counted(new Allowance(job), layer.packedSize);
  const plain = new Counted(bytes);
  const check = () => {
    const isPackedWrong = packed && layer.digest !== undefined && packed.digest() !== layer.digest;
    if (plain.digest() !== layer.diffId || isPackedWrong)
      throw refusal(`layer "${layer.name}" is not what its digest says`);
    return plain.length;
  };
  const file = packed ? packed.through(layer.open()) : layer.open();
  return { tar: plain.through(decompressed(file)), check };
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

/** A stream whose bytes are counted and digested on their way. */
class Counted {
  readonly #hash = createHash("sha256");
  readonly #allowance: Allowance;
  /** exact number of bytes to expect */
  readonly #wanted: number | undefined;
  #digest: string | undefined;
  length = 0;

  constructor(allowance: Allowance, wanted?: number) {
    this.#allowance = allowance;
    this.#wanted = wanted;
  }

  async *through(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of source) {
      this.length += chunk.length;
      this.#allowance.take(chunk.length);
      if (this.#wanted !== undefined && this.length > this.#wanted) throw this.#wrongSize();
      this.#hash.update(chunk);
      yield chunk;
    }
    if (this.#wanted !== undefined && this.length !== this.#wanted) throw this.#wrongSize();
  }

  /** valid after the stream has ended */
  digest(): string {
    this.#digest ??= this.#hash.digest("hex");
    return this.#digest;
  }

  #wrongSize(): SandkeepError {
    return refusal(`a layer does not have the ${this.#wanted} bytes that its manifest says`);
  }
}

/** An image's files below /dev: left out, because every sandbox has its own /dev. */
class Devices {
  #count = 0;

  readonly leaveOut = (path: string): boolean => {
    if (!path.startsWith("dev/")) return false;
    this.#count++;
    return true;
  };

  report(progress: (sentence: string) => void): void {
    if (this.#count > 0) progress(`left out ${this.#count} entries below /dev: a sandbox has a /dev of its own`);
  }
}
