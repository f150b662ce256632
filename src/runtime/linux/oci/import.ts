/** Imports images: from OCI layouts and `docker save` tars, and from the tar of a whole root file system. */

import { createHash } from "node:crypto";
import { join } from "node:path";
import type { ImageConventions } from "../../../core/model/conventions.ts";
import { type ImageConfig, type ImageSource, plainConfig, userOf } from "../../../core/model/image.ts";
import type { Naming } from "../../../core/ports/images.ts";
import type { EtcFile } from "../images/etc.ts";
import { hasGlibc, writeFitting } from "../images/fitting.ts";
import { checkImageName, type ImageRecord, type ImageStore, layersOf } from "../images/images.ts";
import { LayerWriter } from "../images/layer-writer.ts";
import {
  type NodeRuntime,
  nodeFolder,
  nodeLayer,
  nodeLayerId,
  ownNode,
  sharedNodeLayer,
  writeSharedNode,
} from "../images/node-runtime.ts";
import { ImageView } from "../images/view.ts";
import { withBase } from "../layers/bases.ts";
import type { LayerStore } from "../layers/layers.ts";
import { type ArchiveSource, openBlobs } from "./blobs.ts";
import type { ImageContent } from "./content.ts";
import { readSavedImage, type SavedImage } from "./layouts.ts";
import { refusal } from "./refusal.ts";
import { Allowance, layersInReach, type Unpacked, type UnpackJob, unpackLayers, unpackRootfs } from "./unpack.ts";

export interface ImageStores {
  /** the store's directory */
  store: string;
  layers: LayerStore;
  images: ImageStore;
  /** the users, paths and other conventions of imported images */
  conventions: ImageConventions;
  /** throws while the disk is short of room; `what` names the action that would make the store grow */
  requireRoom?(what: string): void;
  /** has something done before the store closes, also when the command is interrupted */
  beforeClose?(work: () => Promise<void>): void;
}

export interface ImportOptions {
  /** default: the name it was saved under */
  name?: string | undefined;
  /** the team that it will belong to; default: the host's */
  owner?: string | undefined;
  /** Node to add if the image can run it; default our own, false for none */
  node?: NodeRuntime | false;
  /** called with a sentence for each step */
  progress?: (sentence: string) => void;
  /** calls `put`, which names the image, unless the layers are too many */
  naming?: Naming | undefined;
}

/** imports an OCI layout directory or tar, a `docker save` tar, or the tar of a root file system, which needs a name */
export async function importImage(
  stores: ImageStores,
  source: ArchiveSource,
  options: ImportOptions = {},
): Promise<ImageRecord> {
  if (options.name !== undefined) checkImageName(options.name);
  const requireRoom = () => stores.requireRoom?.("bring in an image");
  requireRoom();
  const bytes = new Allowance({ requireRoom });
  const blobs = await openBlobs(source, { folder: join(stores.store, "building"), take: (count) => bytes.take(count) });
  try {
    const image = await readSavedImage(blobs);
    if (!image && blobs.tar && options.name !== undefined) {
      return await importRootfs(stores, blobs.tar(), { ...options, name: options.name });
    }
    if (!image) {
      const hint = blobs.tar ? "; to import it as a root file system, say a name with --name" : "";
      throw refusal(`it has neither a manifest.json (docker save) nor an index.json (OCI layout)${hint}`);
    }
    return await bringIn(stores, image, { ...options, name: options.name ?? nameOf(image) });
  } finally {
    await blobs.close();
  }
}

/** imports the tar (compressed or not) of a root file system; `etc` are files that replace its own */
export async function importRootfs(
  stores: ImageStores,
  tar: AsyncIterable<Uint8Array>,
  options: ImportOptions & { name: string; etc?: Record<string, EtcFile> },
): Promise<ImageRecord> {
  checkImageName(options.name);
  const { users, cwd } = stores.conventions;
  return withNewLayers(stores, options, async (job) => {
    const unpacked = await unpackRootfs(job, tar);
    const image = { config: plainConfig(), env: {}, user: users[0].name, cwd };
    return finish(stores, job, { ...unpacked, ...image }, options);
  });
}

/** an image whose layers can be had one by one; those that images in reach have are not asked for */
export async function bringIn(
  stores: ImageStores,
  { config, env, layers }: ImageContent,
  options: ImportOptions & { name: string; source?: ImageSource | undefined },
): Promise<ImageRecord> {
  checkImageName(options.name);
  return withNewLayers(stores, options, async (job) => {
    const unpacked = await unpackLayers(job, layers);
    const user = userOf(config);
    return finish(stores, job, { ...unpacked, config, env, user, cwd: config.cwd || "/" }, options);
  });
}

interface Unfinished extends Unpacked {
  config: ImageConfig;
  env: Record<string, string>;
  user: string;
  cwd: string;
}

type FinishOptions = ImportOptions & {
  name: string;
  etc?: Record<string, EtcFile>;
  source?: ImageSource | undefined;
};

/** the most layers of an image in a store without subvolumes; more are merged into one */
const longestChain = 24;
const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** raise this when our additions to images change */
const fittingVersion = 1;

/** adds what every sandbox needs, and names the image */
async function finish(
  stores: ImageStores,
  job: UnpackJob,
  image: Unfinished,
  options: FinishOptions,
): Promise<ImageRecord> {
  const { layers, images, conventions } = stores;
  const node = options.node === undefined ? ownNode() : options.node;
  const chain = await shortChain(job, image.chain);
  const view = new ImageView(layers, chain);
  try {
    job.progress("fitting it out");
    const withNode = node && (await hasGlibc(view)) ? node : undefined;
    const ownPath = image.env.PATH ?? standardPath;
    // Last in PATH, so that the image's own Node comes first.
    const path = withNode ? `${ownPath}:${nodeFolder(withNode, conventions)}/bin` : ownPath;
    const fit = { stores, job, view, path, node: withNode, etc: options.etc ?? {} };
    const canGrow = layers.hasVolumes && (withNode === undefined || layers.canShare);
    const fitted = canGrow ? await fittedCopy(fit, chain[0] ?? "") : await fittedAbove(fit, chain);
    const { name, owner, source, naming } = options;
    const unnamed = {
      name,
      ...(owner !== undefined && { owner }),
      ...(source && { source }),
      ...fitted,
      ...(layers.hasVolumes && { kept: image.parts.map(({ layer }) => layer) }),
      env: { ...image.env, PATH: path },
      user: image.user,
      cwd: image.cwd,
      config: image.config,
      parts: image.parts,
      createdAt: Date.now(),
    };
    const put = () => images.put(unnamed);
    const record = await (naming ? naming(name, layersOf({ ...unnamed, version: "" }), put) : put());
    return await withBase(stores, record);
  } finally {
    await view.close();
  }
}

interface Fit {
  stores: ImageStores;
  job: UnpackJob;
  /** the image without our additions */
  view: ImageView;
  path: string;
  node: NodeRuntime | undefined;
  etc: Record<string, EtcFile>;
}

/** a copy of the image with what sandboxes need: the base of its machines. Node lies below, shared by all machines */
async function fittedCopy({ stores, job, view, path, node, etc }: Fit, from: string) {
  const { layers, conventions } = stores;
  const inputs = [fittingVersion, from, path, conventions, node ? nodeLayerId(node) : "", etc];
  const id = `image-${createHash("sha256").update(JSON.stringify(inputs)).digest("hex")}`;
  const shared = node && (await sharedNodeLayer(layers, job.claim, node));
  await job.claim.add(id);
  if (!(await layers.get(id))) {
    await layers.grow(job.claim, from, async (files) => {
      const writer = new LayerWriter(files);
      await writeFitting(writer, view, path, conventions);
      if (node) await writeSharedNode(writer, conventions, node);
      await writeEtc(writer, etc);
      return { id, size: 0 };
    });
    job.made.push(id);
  }
  return { layers: shared ? [id, shared.id] : [id], base: id };
}

/** the image, Node and what sandboxes need as separate layers */
async function fittedAbove({ stores, job, view, path, node, etc }: Fit, chain: string[]) {
  const { layers, conventions } = stores;
  const top = await layers.create(job.claim, async (files) => {
    const writer = new LayerWriter(files);
    await writeFitting(writer, view, path, conventions);
    await writeEtc(writer, etc);
    return undefined;
  });
  job.made.push(top.id);
  const nodeIds = node ? [(await nodeLayer({ layers, claim: job.claim, conventions }, node)).id] : [];
  return { layers: [top.id, ...nodeIds, ...chain] };
}

async function writeEtc(writer: LayerWriter, etc: Record<string, EtcFile>): Promise<void> {
  for (const [path, { text, mode = 0o644 }] of Object.entries(etc)) {
    await writer.file(`/etc/${path}`, text, { mode });
  }
}

/** merges the layers if there are too many, or if one occurs twice, which the kernel refuses */
async function shortChain({ layers, claim, made, progress }: UnpackJob, chain: string[]): Promise<string[]> {
  if (chain.length <= longestChain && new Set(chain).size === chain.length) return chain;
  progress(`making one layer of ${chain.length}`);
  const { id } = await layers.flatten(claim, chain, { bottom: true });
  made.push(id);
  return [id];
}

/** runs a job that makes layers; if it fails, deletes the new ones, unless another image uses them as well */
async function withNewLayers<T>(
  stores: ImageStores,
  { progress, owner }: ImportOptions,
  run: (job: UnpackJob) => Promise<T>,
): Promise<T> {
  const { layers, images } = stores;
  const claim = await layers.claim();
  const made: string[] = [];
  const requireRoom = () => stores.requireRoom?.("bring in an image");
  try {
    requireRoom();
    const inReach = await layersInReach(images, owner);
    return await run({ layers, claim, inReach, made, requireRoom, progress: (sentence) => progress?.(sentence) });
  } catch (error) {
    await claim.release();
    const used = new Set((await images.list()).flatMap(layersOf));
    await layers.discard(made.filter((id) => !used.has(id)));
    throw error;
  } finally {
    await claim.release();
  }
}

/** the name it was saved under, without the registry's default parts */
function nameOf(image: SavedImage): string {
  const [tag] = image.tags;
  if (tag === undefined) throw refusal("it has no name of its own; say which with --name");
  const name = tag.replace(/^docker\.io\/(library\/)?/, "").replace(/:latest$/, "");
  checkImageName(name);
  return name;
}
