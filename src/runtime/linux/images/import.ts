/** Brings images in: from OCI layouts and `docker save` tars, and from the tar of a whole root file system. */

import { createHash } from "node:crypto";
import { join } from "node:path";
import type { ImageConventions } from "../../../core/model/conventions.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import { decompressed } from "../files/decompress.ts";
import { extractTar } from "../files/tar-extract.ts";
import { withBase } from "../layers/bases.ts";
import type { Claim } from "../layers/claims.ts";
import type { LayerInfo } from "../layers/layer-record.ts";
import type { LayerStore } from "../layers/layers.ts";
import { type Blobs, type ImageSource, openBlobs, refusal } from "./blobs.ts";
import type { EtcFile } from "./etc.ts";
import { hasGlibc, writeFitting } from "./fitting.ts";
import { checkImageName, type ImageRecord, type ImageStore } from "./images.ts";
import { LayerWriter } from "./layer-writer.ts";
import { type NodeRuntime, nodeFolder, nodeLayer, ownNode } from "./node-runtime.ts";
import { type OciImage, type OciLayer, readOciImage } from "./oci.ts";
import { ImageView } from "./view.ts";

export interface ImageStores {
  /** the store's directory */
  store: string;
  layers: LayerStore;
  images: ImageStore;
  /** what images are fitted out with */
  conventions: ImageConventions;
}

export interface ImportOptions {
  /** default: the name it was saved under */
  name?: string | undefined;
  /** put on top where it can run; default our own, false for none */
  node?: NodeRuntime | false;
  /** told what is being done */
  progress?: Progress;
}

type Progress = (sentence: string) => void;

/** an OCI layout directory or tar, or a `docker save` tar */
export async function importImage(
  stores: ImageStores,
  source: ImageSource,
  options: ImportOptions = {},
): Promise<ImageRecord> {
  const { progress = () => undefined } = options;
  if (options.name !== undefined) checkImageName(options.name);
  const blobs = await openBlobs(source, join(stores.store, "building"));
  try {
    const image = await readOciImage(blobs);
    const name = options.name ?? nameOf(image);
    return await withNewLayers(stores, async (claim, made) => {
      const chain: string[] = [];
      for (const [index, layer] of image.layers.entries()) {
        progress(`layer ${index + 1} of ${image.layers.length}: ${layer.diffId.slice(0, 12)}`);
        chain.unshift((await importLayer(stores.layers, claim, { blobs, layer, progress }, made)).id);
      }
      const { env, user, cwd } = image;
      return finish(stores, claim, made, { name, chain, env, user: user || "root", cwd: cwd || "/" }, options);
    });
  } finally {
    await blobs.close();
  }
}

/** the tar (compressed or not) of a root file system; `etc` are files to write over those it has */
export async function importRootfs(
  stores: ImageStores,
  tar: AsyncIterable<Uint8Array>,
  options: ImportOptions & { name: string; etc?: Record<string, EtcFile> },
): Promise<ImageRecord> {
  checkImageName(options.name);
  return withNewLayers(stores, async (claim, made) => {
    const layer = await stores.layers.create(claim, async (files) => {
      const hash = createHash("sha256");
      const devices = new Devices();
      await extractTar(files, "/", hashed(decompressed(tar), hash), { layer: true, leaveOut: devices.leaveOut });
      devices.report(options.progress);
      return `sha256-${hash.digest("hex")}`;
    });
    made.push(layer.id);
    const { users, cwd } = stores.conventions;
    const base = { name: options.name, chain: [layer.id], env: {}, user: users[0].name, cwd };
    return finish(stores, claim, made, base, options);
  });
}

/** What an image has below /dev: left out, because every sandbox has a /dev of its own. */
class Devices {
  #count = 0;

  readonly leaveOut = (path: string): boolean => {
    if (!path.startsWith("dev/")) return false;
    this.#count++;
    return true;
  };

  report(progress?: Progress): void {
    if (this.#count > 0) progress?.(`left out ${this.#count} entries below /dev: a sandbox has a /dev of its own`);
  }
}

interface Imported {
  name: string;
  /** topmost first */
  chain: string[];
  env: Record<string, string>;
  user: string;
  cwd: string;
}

/** how many layers an image may have before they are made one */
const longestChain = 24;
const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
// What a hostile image may unpack to; larger ones are not images.
const largestLayer = 64 * 2 ** 30;

/** the layer with this content: the store's own, if it has it, else unpacked and checked */
async function importLayer(
  layers: LayerStore,
  claim: Claim,
  { blobs, layer, progress }: { blobs: Blobs; layer: OciLayer; progress: Progress },
  made: string[],
): Promise<LayerInfo> {
  const id = `sha256-${layer.diffId}`;
  await claim.add(id);
  const there = await layers.get(id);
  if (there) return there;
  const created = await layers.create(claim, async (files) => {
    const packed = createHash("sha256");
    const plain = createHash("sha256");
    const tar = hashed(decompressed(hashed(blobs.read(layer.blob), packed)), plain);
    const devices = new Devices();
    await extractTar(files, "/", tar, { layer: true, oci: true, leaveOut: devices.leaveOut });
    devices.report(progress);
    const wrong = plain.digest("hex") !== layer.diffId || (layer.digest && packed.digest("hex") !== layer.digest);
    if (wrong) throw refusal(`layer "${layer.blob}" is not what its digest says`);
    return id;
  });
  made.push(created.id);
  return created;
}

/** puts what every sandbox needs on top, and gives it its name */
async function finish(
  stores: ImageStores,
  claim: Claim,
  made: string[],
  image: Imported,
  options: ImportOptions & { etc?: Record<string, EtcFile> },
): Promise<ImageRecord> {
  const { layers, images, conventions } = stores;
  const node = options.node === undefined ? ownNode() : options.node;
  let { chain } = image;
  if (chain.length > longestChain) {
    options.progress?.(`making one layer of ${chain.length}`);
    chain = [(await layers.flatten(claim, chain, { bottom: true })).id];
    made.push(...chain);
  }
  const view = new ImageView(layers, chain);
  try {
    options.progress?.("fitting it out");
    const withNode = node && (await hasGlibc(view)) ? node : undefined;
    const ownPath = image.env.PATH ?? standardPath;
    // Last, so that a Node that the image brings is the one that runs.
    const path = withNode ? `${ownPath}:${nodeFolder(withNode, conventions)}/bin` : ownPath;
    const top = await layers.create(claim, async (files) => {
      const writer = new LayerWriter(files);
      await writeFitting(writer, view, path, conventions);
      for (const [path, { text, mode = 0o644 }] of Object.entries(options.etc ?? {})) {
        await writer.file(`/etc/${path}`, text, { mode });
      }
      return undefined;
    });
    made.push(top.id);
    const nodeIds = withNode ? [(await nodeLayer({ layers, claim, conventions }, withNode)).id] : [];
    const record = await images.put({
      name: image.name,
      layers: [top.id, ...nodeIds, ...chain],
      env: { ...image.env, PATH: path },
      user: image.user,
      cwd: image.cwd,
      createdAt: Date.now(),
    });
    return await withBase(stores, record);
  } finally {
    await view.close();
  }
}

/** runs a job that makes layers; when it fails, those it made are deleted, unless another image has them as well */
async function withNewLayers<T>(
  { layers, images }: ImageStores,
  job: (claim: Claim, made: string[]) => Promise<T>,
): Promise<T> {
  const claim = await layers.claim();
  const made: string[] = [];
  try {
    return await job(claim, made);
  } catch (error) {
    await claim.release();
    const used = await images.layersInUse([]);
    await layers.discard(made.filter((id) => !used.has(id)));
    throw error;
  } finally {
    await claim.release();
  }
}

async function* hashed(
  source: AsyncIterable<Uint8Array>,
  hash: ReturnType<typeof createHash>,
): AsyncGenerator<Uint8Array> {
  let length = 0;
  for await (const chunk of source) {
    length += chunk.length;
    if (length > largestLayer) {
      throw new SandkeepError("limit", `Cannot import the image: a layer is larger than ${largestLayer} bytes`);
    }
    hash.update(chunk);
    yield chunk;
  }
}

/** the name it was saved under, without the registry's default parts */
function nameOf(image: OciImage): string {
  const [tag] = image.tags;
  if (tag === undefined) throw refusal("it has no name of its own; say which with --name");
  const name = tag.replace(/^docker\.io\/(library\/)?/, "").replace(/:latest$/, "");
  checkImageName(name);
  return name;
}
