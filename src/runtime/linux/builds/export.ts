/**
 * An image as one tar for other tools: an OCI layout, and beside its index the manifest.json of `docker save`, so that
 * both kinds of readers find their format. All files of the image are one layer, since machines keep them in one place.
 */

import { createHash } from "node:crypto";
import { type FileHandle, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { TarWriter } from "../../../base/tar/writer.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { ImageConfig } from "../../../core/model/image.ts";
import { archiveTar } from "../files/tar.ts";
import type { ImageRecord, ImageStore } from "../images/images.ts";
import { withBase } from "../layers/bases.ts";
import { processTag } from "../layers/claims.ts";
import type { LayerStore } from "../layers/layers.ts";

export interface ExportStores {
  images: ImageStore;
  layers: LayerStore;
  /** a folder for temporary files; nothing in it outlives this process */
  scratch: string;
  /** throws while the disk is short of room */
  requireRoom?: () => void;
}

/** a signal that aborts ends it, whether it is being packed or read */
export async function exportImage(stores: ExportStores, image: ImageRecord, signal?: AbortSignal): Promise<Readable> {
  const { layers } = stores;
  await requireWhole(layers, image);
  const whole = await withBase(stores, image);
  const layer = whole.base ?? (image.layers.length === 1 ? image.layers[0] : undefined);
  if (layer === undefined) throw refusal(image, "its store keeps its layers apart");
  const packed = await packLayer(stores, layer, signal);
  const readable = Readable.from(archive(image, packed), { objectMode: false });
  const leave = () => readable.destroy();
  signal?.addEventListener("abort", leave, { once: true });
  // A stream that is left before its first read never begins with the archive.
  readable.once("close", () => {
    signal?.removeEventListener("abort", leave);
    void packed.file.close().catch(() => undefined);
  });
  return readable;
}

/** refuses images that use directories of the host, except for our own Node, which every import adds again */
async function requireWhole(layers: LayerStore, image: ImageRecord): Promise<void> {
  const { host } = await layers.sorted(image.layers);
  if (host.every((id) => /^node-.*-shared$/.test(id))) return;
  throw refusal(
    image,
    "it is made of this host's own /usr, which stays here; build it from an image that was brought in",
  );
}

interface PackedLayer {
  file: FileHandle;
  size: number;
  /** digest of the compressed file */
  digest: string;
  /** digest of the tar in it */
  diffId: string;
}

/** its digest has to be known before it is written, so it lies in a nameless file meanwhile */
async function packLayer(stores: ExportStores, layer: string, signal?: AbortSignal): Promise<PackedLayer> {
  const { layers, scratch, requireRoom } = stores;
  const path = join(scratch, processTag());
  const file = await open(path, "wx+", 0o600);
  const claim = layers.hold();
  try {
    await rm(path);
    await claim.add(layer);
    const [plain, packed] = [createHash("sha256"), createHash("sha256")];
    let size = 0;
    const tar = hashed(layerTar(layers, layer), plain);
    // A composed stream that is left early fails with an error that nothing can catch; a pipeline does not.
    await pipeline(tar, createGzip({ level: 4 }), async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) {
        signal?.throwIfAborted();
        requireRoom?.();
        packed.update(chunk);
        await file.write(chunk);
        size += chunk.length;
      }
    });
    signal?.throwIfAborted();
    return { file, size, digest: packed.digest("hex"), diffId: plain.digest("hex") };
  } catch (error) {
    await file.close();
    throw error;
  } finally {
    await claim.release();
  }
}

async function* layerTar(layers: LayerStore, layer: string): AsyncGenerator<Buffer> {
  const files = await layers.filesAt(layer);
  try {
    yield* archiveTar(files, "/", { layer: true, oci: true });
  } finally {
    files.close();
  }
}

async function* hashed(source: AsyncIterable<Buffer>, hash: ReturnType<typeof createHash>): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    hash.update(chunk);
    yield chunk;
  }
}

async function* archive(image: ImageRecord, layer: PackedLayer): AsyncGenerator<Buffer> {
  const output = new TarWriter();
  const small = (name: string, content: Buffer) => output.small({ name }, content);
  const config = json(configOf(image, layer.diffId));
  const media = "application/vnd.oci.image";
  const configBlob = {
    mediaType: `${media}.config.v1+json`,
    digest: `sha256:${sha256(config)}`,
    size: config.length,
  };
  const layerBlob = { mediaType: `${media}.layer.v1.tar+gzip`, digest: `sha256:${layer.digest}`, size: layer.size };
  const manifest = json({
    schemaVersion: 2,
    mediaType: `${media}.manifest.v1+json`,
    config: configBlob,
    layers: [layerBlob],
  });
  const [repository = "", tag = "latest"] = splitName(image.name);
  const index = {
    schemaVersion: 2,
    mediaType: `${media}.index.v1+json`,
    manifests: [
      {
        mediaType: `${media}.manifest.v1+json`,
        digest: `sha256:${sha256(manifest)}`,
        size: manifest.length,
        platform: { architecture, os: "linux" },
        annotations: { "org.opencontainers.image.ref.name": tag, "io.containerd.image.name": `${repository}:${tag}` },
      },
    ],
  };
  const saved = [
    { Config: blobPath(sha256(config)), RepoTags: [`${repository}:${tag}`], Layers: [blobPath(layer.digest)] },
  ];
  yield* small("oci-layout", json({ imageLayoutVersion: "1.0.0" }));
  yield* small("index.json", json(index));
  yield* small("manifest.json", json(saved));
  yield* small(blobPath(sha256(config)), config);
  yield* small(blobPath(sha256(manifest)), manifest);
  yield* output.member({ name: blobPath(layer.digest), size: layer.size }, contentsOf(layer.file, layer.size));
  yield* output.end();
}

const architecture = process.arch === "arm64" ? "arm64" : "amd64";

function configOf(image: ImageRecord, diffId: string): object {
  const { env, user, cwd, config, createdAt } = image;
  const said: Partial<ImageConfig> = config ?? {};
  const { entrypoint = [], command = [], ports = [], volumes = [], labels = {}, stopSignal, shell } = said;
  const { author, onBuild } = said;
  const keys = (names: string[]) => Object.fromEntries(names.map((name) => [name, {}]));
  return {
    created: new Date(createdAt).toISOString(),
    ...(author !== undefined && { author }),
    architecture,
    os: "linux",
    config: {
      User: config?.user || user,
      WorkingDir: config?.cwd || cwd,
      Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      ...(entrypoint.length > 0 && { Entrypoint: entrypoint }),
      ...(command.length > 0 && { Cmd: command }),
      ...(ports.length > 0 && { ExposedPorts: keys(ports) }),
      ...(volumes.length > 0 && { Volumes: keys(volumes) }),
      ...(Object.keys(labels).length > 0 && { Labels: labels }),
      ...(stopSignal !== undefined && { StopSignal: stopSignal }),
      ...(shell && { Shell: shell }),
      ...(onBuild && { OnBuild: onBuild }),
    },
    rootfs: { type: "layers", diff_ids: [`sha256:${diffId}`] },
    // Tools expect as many entries with files as there are layers.
    history: [
      ...(said.history ?? []).map(({ createdBy }) => ({ created_by: createdBy, empty_layer: true })),
      { created: new Date(createdAt).toISOString(), created_by: "all files of the image" },
    ],
  };
}

/** "a/b:c" as "a/b" and "c"; the colon of a port does not begin a tag */
function splitName(name: string): [string, string?] {
  const at = name.lastIndexOf(":");
  return at > name.lastIndexOf("/") ? [name.slice(0, at), name.slice(at + 1)] : [name];
}

const pieceLength = 1 << 18;

async function* contentsOf(file: FileHandle, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < size; ) {
    const { bytesRead, buffer } = await file.read(
      Buffer.allocUnsafe(pieceLength),
      0,
      Math.min(pieceLength, size - at),
      at,
    );
    if (bytesRead === 0) throw new SandkeepError("internal", "Cannot export the image: its layer became shorter");
    yield buffer.subarray(0, bytesRead);
    at += bytesRead;
  }
}

function blobPath(digest: string): string {
  return `blobs/sha256/${digest}`;
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function sha256(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}

function refusal({ name }: ImageRecord, why: string): SandkeepError {
  return new SandkeepError("invalid", `Cannot export image "${name}": ${why}`);
}
