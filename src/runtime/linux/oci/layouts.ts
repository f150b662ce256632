/**
 * Interprets an OCI layout or a `docker save` tar: which layers make up the image, and its configuration.
 *
 *   docker save   manifest.json   [{ Config, RepoTags, Layers }]: paths in the tar, lowest layer first
 *   OCI layout    index.json      -> manifest (or another index, by platform) -> config and layers, by digest, in blobs/
 *
 * Both configs name each layer by the digest of its uncompressed tar (diff_id), so a layer is recognized wherever it
 * comes from.
 */

import { createHash } from "node:crypto";
import { z } from "zod";
import { type Blobs, readSmall } from "./blobs.ts";
import type { ImageContent } from "./content.ts";
import {
  checkLayers,
  type Descriptor,
  deepestIndex,
  type Manifest,
  mostLayers,
  parse,
  readConfig,
  readManifest,
} from "./manifest.ts";
import { refusal } from "./refusal.ts";

/** an image in an archive, with the names it was saved under */
export interface SavedImage extends ImageContent {
  tags: string[];
}

/** undefined if the blobs are neither */
export async function readSavedImage(blobs: Blobs): Promise<SavedImage | undefined> {
  if (await blobs.has("manifest.json")) return readDockerImage(blobs);
  if (await blobs.has("index.json")) return readLayout(blobs);
  return undefined;
}

const dockerFile = z
  .array(
    z.object({
      Config: z.string(),
      RepoTags: z.array(z.string()).nullish(),
      Layers: z.array(z.string()).max(mostLayers),
    }),
  )
  .min(1);

async function readDockerImage(blobs: Blobs): Promise<SavedImage> {
  const saved = parse("manifest.json", await readSmall(blobs, "manifest.json"), dockerFile);
  const [image] = saved;
  if (!image || saved.length > 1) {
    const tags = saved.flatMap(({ RepoTags }) => RepoTags ?? []).join(", ");
    throw refusal(`it holds ${saved.length} images (${tags}); save one at a time`);
  }
  return described(
    blobs,
    await readSmall(blobs, image.Config),
    image.Layers.map((blob) => ({ blob })),
    image.RepoTags ?? [],
  );
}

async function readLayout(blobs: Blobs): Promise<SavedImage> {
  const { manifest, tags } = await findManifest(blobs, "index.json", await readSmall(blobs, "index.json"), 1);
  const config = await readBlob(blobs, manifest.config.digest);
  const layers = manifest.layers.map((layer) => ({ ...layer, blob: blobName(layer.digest) }));
  return described(blobs, config, layers, tags);
}

async function findManifest(
  blobs: Blobs,
  name: string,
  content: Buffer,
  depth: number,
  tags: string[] = [],
): Promise<{ manifest: Manifest; tags: string[] }> {
  const read = readManifest(name, content);
  if (read.kind === "manifest") return { manifest: read.manifest, tags };
  if (depth > deepestIndex) throw refusal("its indexes are nested too deep");
  const { digest, tag } = read.choose();
  const names = tag === undefined ? tags : [tag];
  return findManifest(blobs, "a manifest", await readBlob(blobs, digest), depth + 1, names);
}

function described(
  blobs: Blobs,
  file: Buffer,
  layers: (Partial<Descriptor> & { blob: string })[],
  tags: string[],
): SavedImage {
  const read = readConfig(file);
  checkLayers(layers, read);
  return {
    tags,
    config: read.config,
    env: read.env,
    layers: layers.map(({ blob, digest, size }, index) => ({
      name: blob,
      diffId: read.diffIds[index] ?? "",
      digest,
      packedSize: size,
      open: () => blobs.read(blob),
    })),
  };
}

async function readBlob(blobs: Blobs, wanted: string): Promise<Buffer> {
  const content = await readSmall(blobs, blobName(wanted));
  if (createHash("sha256").update(content).digest("hex") === wanted) return content;
  throw refusal(`"${blobName(wanted)}" is not what its digest says`);
}

function blobName(digest: string): string {
  return `blobs/sha256/${digest}`;
}
