/**
 * Pulls an image from a registry into the store: downloads the missing layers in parallel and unpacks them meanwhile.
 */

import { join } from "node:path";
import { eachBounded } from "../../../base/concurrency/each-bounded.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import { imageKey } from "../../../core/model/image.ts";
import type { ImageRecord } from "../images/images.ts";
import type { ImageContent } from "../oci/content.ts";
import { bringIn, type ImageStores, type ImportOptions } from "../oci/import.ts";
import {
  checkLayers,
  type Descriptor,
  deepestIndex,
  type Manifest,
  readConfig,
  readManifest,
} from "../oci/manifest.ts";
import { refusal } from "../oci/refusal.ts";
import { largestImage, layersInReach, missingLayers } from "../oci/unpack.ts";
import { Repository, type RepositoryOptions } from "./client.ts";
import { Download, mostDownloads, openDownloads } from "./downloads.ts";
import { fullName, type Reference, storedName } from "./reference.ts";

export interface PullOptions extends ImportOptions, RepositoryOptions {
  /** called with the number of received bytes and of all bytes */
  received?: (bytes: number, of: number) => void;
}

export interface Pulled {
  image: ImageRecord;
  /** whether the name stood for another image, or none, before */
  isNew: boolean;
}

export async function pullImage(stores: ImageStores, reference: Reference, options: PullOptions): Promise<Pulled> {
  const stop = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
  const repository = new Repository(reference, { ...options, signal });
  const name = options.name ?? storedName(reference);
  const key = imageKey({ name, owner: options.owner });
  const before = await stores.images.get(key);
  // What a digest names never changes, so the registry need not be there.
  const isPinned = reference.digest !== undefined && options.node === undefined;
  const { manifest: ofManifest, index: ofIndex } = before?.source ?? {};
  if (before && isPinned && [ofManifest, ofIndex].includes(reference.digest)) return { image: before, isNew: false };
  options.progress?.(`asking for ${fullName(reference)}`);
  const found = await findManifest(repository, reference);
  if (before?.source?.manifest === found.digest && options.node === undefined) return { image: before, isNew: false };
  const { manifest, digest, index } = found;
  const read = readConfig(await repository.smallBlob(manifest.config.digest, "its config"));
  checkLayers(manifest.layers, read);
  const layers = sized(manifest.layers).map((layer, at) => ({
    name: `sha256:${layer.digest}`,
    diffId: read.diffIds[at] ?? "",
    digest: layer.digest,
    packedSize: layer.size,
  }));
  const source = { reference: fullName(reference), manifest: digest, ...(index !== undefined && { index }) };
  const content = { config: read.config, env: read.env, layers };
  const image = await withDownloads(
    stores,
    { registry: reference.registry, repository, stop, signal },
    content,
    options,
    (ready) => bringIn(stores, ready, { ...options, name, source }),
  );
  return { image, isNew: image.version !== before?.version };
}

interface FoundImage {
  manifest: Manifest;
  digest: string;
  index?: string | undefined;
}

async function findManifest(repository: Repository, { tag, digest }: Reference): Promise<FoundImage> {
  let found = await (digest === undefined
    ? repository.manifest(tag ?? "latest", false)
    : repository.manifest(digest, true));
  let index: string | undefined;
  for (let depth = 0; depth <= deepestIndex; depth++) {
    const read = readManifest("its manifest", found.content);
    if (read.kind === "manifest") return { manifest: read.manifest, digest: found.digest, index };
    index ??= found.digest;
    // By digest from here on: the tag may change meanwhile.
    found = await repository.manifest(read.choose().digest, true);
  }
  throw refusal("its indexes are nested too deep");
}

/** refuses layers without a size, or with one that no image may have, before any download */
function sized(layers: Descriptor[]): (Descriptor & { size: number })[] {
  const all = layers.map((layer) => {
    if (layer.size === undefined) throw refusal(`its manifest does not say how large "sha256:${layer.digest}" is`);
    if (layer.mediaType !== undefined && /foreign|nondistributable/.test(layer.mediaType)) {
      throw new SandkeepError("unsupported", "Cannot pull the image: it has layers that registries may not hand out");
    }
    return { ...layer, size: layer.size };
  });
  if (all.reduce((sum, { size }) => sum + size, 0) <= largestImage) return all;
  throw new SandkeepError("limit", `Cannot pull the image: it is larger than ${largestImage} bytes`);
}

type Undownloaded = Omit<ImageContent, "layers"> & {
  layers: (Omit<ImageContent["layers"][number], "open" | "digest" | "packedSize"> & {
    digest: string;
    packedSize: number;
  })[];
};

interface Connection {
  registry: string;
  repository: Repository;
  /** aborts everything that is running */
  stop: AbortController;
  signal: AbortSignal;
}

/** downloads the layers that the store lacks while `use` reads them */
async function withDownloads(
  stores: ImageStores,
  { registry, repository, stop, signal }: Connection,
  { layers, ...content }: Undownloaded,
  options: PullOptions,
  use: (ready: ImageContent) => Promise<ImageRecord>,
): Promise<ImageRecord> {
  const folder = join(stores.store, "downloads");
  await openDownloads(folder);
  const missing = await missingLayers(stores.layers, layers, await layersInReach(stores.images, options.owner));
  const total = unique(missing).reduce((sum, { packedSize }) => sum + packedSize, 0);
  let bytes = 0;
  const received = (count: number) => {
    bytes += count;
    options.received?.(bytes, total);
  };
  const requireRoom = () => stores.requireRoom?.("pull an image");
  const downloads = new Map(
    unique(missing).map(({ digest, packedSize: size }) => {
      const blob = { digest, size };
      return [digest, new Download(repository, blob, { folder, registry, requireRoom, received, signal })] as const;
    }),
  );
  const downloadOf = (digest: string) => {
    const download = downloads.get(digest);
    // The layer was in the store a moment ago; another process has deleted it.
    if (!download)
      throw new SandkeepError("conflict", "Cannot pull the image: its layers were deleted meanwhile; pull it again");
    return download;
  };
  const uses = (digest: string) => layers.filter((layer) => layer.digest === digest).length;
  const coming = eachBounded(mostDownloads, downloads.values(), (download) => download.run());
  coming.catch((error) => {
    for (const download of downloads.values()) download.abandon(error);
  });
  try {
    const ready = layers.map((layer) => ({
      ...layer,
      isChecked: true,
      open: () => downloadOf(layer.digest).read(),
      file: async () => downloadOf(layer.digest).file(),
      used: async () => (uses(layer.digest) === 1 ? downloadOf(layer.digest).drop() : undefined),
    }));
    const image = await use({ ...content, layers: ready });
    await coming;
    return image;
  } finally {
    stop.abort(new SandkeepError("unavailable", "Cannot pull the image: the pull was cancelled"));
    await coming.catch(() => undefined);
    for (const download of downloads.values()) await download.close();
  }
}

function unique<T extends { digest: string }>(layers: T[]): T[] {
  return [...new Map(layers.map((layer) => [layer.digest, layer])).values()];
}
