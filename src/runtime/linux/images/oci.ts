/**
 * Understands what is in an OCI layout or a `docker save` tar: which layers make the image, and how it wants to be run.
 *
 *   docker save   manifest.json   [{ Config, RepoTags, Layers }]: paths in the tar, lowest layer first
 *   OCI layout    index.json      -> manifest (or another index, by platform) -> config and layers, by digest, in blobs/
 *
 * In both the config names each layer by the digest of its uncompressed tar (diff_id), which is what makes a layer the
 * same layer wherever it comes from.
 */

import { createHash } from "node:crypto";
import { z } from "zod";
import { SandkeepError } from "../../../core/model/errors.ts";
import { type Blobs, readSmall, refusal } from "./blobs.ts";

export interface OciImage {
  /** lowest first */
  layers: OciLayer[];
  /** names it was saved under */
  tags: string[];
  env: Record<string, string>;
  /** empty when it does not say */
  user: string;
  cwd: string;
}

export interface OciLayer {
  /** its file among the blobs */
  blob: string;
  /** of the file as it is, in hex; undefined where the format has none */
  digest?: string | undefined;
  /** of the tar in it, in hex */
  diffId: string;
}

export async function readOciImage(blobs: Blobs): Promise<OciImage> {
  if (await blobs.has("manifest.json")) return readDockerImage(blobs);
  if (await blobs.has("index.json")) return readLayout(blobs);
  throw refusal("it has neither a manifest.json (docker save) nor an index.json (OCI layout)");
}

const architectures: Record<string, string> = { x64: "amd64", arm64: "arm64" };
const mostLayers = 200;
// An index may point to another; nobody nests them deeper.
const deepestIndex = 3;

const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/, "only sha256 digests are supported");

const configFile = z.object({
  architecture: z.string().optional(),
  os: z.string().optional(),
  config: z
    .object({
      Env: z.array(z.string()).nullish(),
      User: z.string().nullish(),
      WorkingDir: z.string().nullish(),
    })
    .nullish(),
  rootfs: z.object({ diff_ids: z.array(digest).max(mostLayers) }),
});

const dockerFile = z
  .array(
    z.object({
      Config: z.string(),
      RepoTags: z.array(z.string()).nullish(),
      Layers: z.array(z.string()).max(mostLayers),
    }),
  )
  .min(1);

const descriptor = z.object({
  digest,
  platform: z.object({ os: z.string().optional(), architecture: z.string().optional() }).nullish(),
  annotations: z.record(z.string(), z.string()).nullish(),
});
const indexFile = z.object({ manifests: z.array(descriptor) });
const manifestFile = z.object({ config: descriptor, layers: z.array(descriptor).max(mostLayers) });

async function readDockerImage(blobs: Blobs): Promise<OciImage> {
  const saved = parse("manifest.json", await readSmall(blobs, "manifest.json"), dockerFile);
  const [image] = saved;
  if (!image || saved.length > 1) {
    const tags = saved.flatMap(({ RepoTags }) => RepoTags ?? []).join(", ");
    throw refusal(`it holds ${saved.length} images (${tags}); save one at a time`);
  }
  const config = parse(image.Config, await readSmall(blobs, image.Config), configFile);
  const layers = image.Layers.map((blob) => ({ blob }));
  return described(config, layers, image.RepoTags ?? []);
}

async function readLayout(blobs: Blobs): Promise<OciImage> {
  const found = await readManifest(blobs, parse("index.json", await readSmall(blobs, "index.json"), indexFile), 1);
  const config = parse("its config", await readBlob(blobs, found.manifest.config.digest), configFile);
  const layers = found.manifest.layers.map(({ digest }) => ({ blob: blobName(digest), digest: hexOf(digest) }));
  return described(config, layers, found.tags);
}

async function readManifest(
  blobs: Blobs,
  index: z.infer<typeof indexFile>,
  depth: number,
): Promise<{ manifest: z.infer<typeof manifestFile>; tags: string[] }> {
  const chosen = choose(index.manifests);
  const content = await readBlob(blobs, chosen.digest);
  const nested = indexFile.safeParse(json("a manifest", content));
  if (nested.success) {
    if (depth >= deepestIndex) throw refusal("its indexes are nested too deep");
    return readManifest(blobs, nested.data, depth + 1);
  }
  const tag =
    chosen.annotations?.["io.containerd.image.name"] ?? chosen.annotations?.["org.opencontainers.image.ref.name"];
  return { manifest: parse("a manifest", content, manifestFile), tags: tag === undefined ? [] : [tag] };
}

/** the one for this machine */
function choose(manifests: z.infer<typeof descriptor>[]): z.infer<typeof descriptor> {
  const fitting = manifests.filter(({ platform }) => !platform || isOurs(platform.os, platform.architecture));
  const [chosen] = fitting;
  if (!chosen) {
    throw new SandkeepError("unsupported", `Cannot import the image: it has nothing for linux/${architecture()}`);
  }
  if (new Set(fitting.map(({ digest }) => digest)).size > 1) {
    throw refusal(`it holds ${fitting.length} images for linux/${architecture()}; save one at a time`);
  }
  return chosen;
}

function described(config: z.infer<typeof configFile>, layers: Omit<OciLayer, "diffId">[], tags: string[]): OciImage {
  if (!isOurs(config.os, config.architecture)) {
    const wants = `${config.os ?? "linux"}/${config.architecture}`;
    throw new SandkeepError("unsupported", `Cannot import the image: it is for ${wants}, not linux/${architecture()}`);
  }
  const diffIds = config.rootfs.diff_ids;
  if (diffIds.length !== layers.length || layers.length === 0) {
    throw refusal(`it has ${layers.length} layers where its config names ${diffIds.length}`);
  }
  const { Env, User, WorkingDir } = config.config ?? {};
  return {
    layers: layers.map((layer, index) => ({ ...layer, diffId: hexOf(diffIds[index] ?? "") })),
    tags,
    env: environment(Env ?? []),
    user: User?.split(":", 1)[0] ?? "",
    cwd: WorkingDir ?? "",
  };
}

function environment(entries: string[]): Record<string, string> {
  const pairs = entries.map((entry) => [entry.split("=", 1)[0] ?? "", entry.slice(entry.indexOf("=") + 1)] as const);
  return Object.fromEntries(pairs.filter(([name]) => /^[^=\0]+$/.test(name)));
}

async function readBlob(blobs: Blobs, wanted: string): Promise<Buffer> {
  const content = await readSmall(blobs, blobName(wanted));
  if (createHash("sha256").update(content).digest("hex") === hexOf(wanted)) return content;
  throw refusal(`"${blobName(wanted)}" is not what its digest says`);
}

function blobName(digest: string): string {
  return `blobs/sha256/${hexOf(digest)}`;
}

function hexOf(digest: string): string {
  return digest.slice("sha256:".length);
}

function isOurs(os = "linux", machine = architecture()): boolean {
  return os === "linux" && machine === architecture();
}

function architecture(): string {
  return architectures[process.arch] ?? process.arch;
}

function parse<T>(name: string, content: Buffer, schema: z.ZodType<T>): T {
  const result = schema.safeParse(json(name, content));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw refusal(`${name} is not what it should be: ${issue?.path.join(".")}: ${issue?.message}`, result.error);
}

function json(name: string, content: Buffer): unknown {
  try {
    return JSON.parse(content.toString());
  } catch (cause) {
    throw refusal(`${name} is no JSON`, cause);
  }
}
