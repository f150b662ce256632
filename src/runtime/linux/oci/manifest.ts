/**
 * The JSON documents of an image in a registry or an archive: an index (one manifest for each kind of machine), a
 * manifest (the config and the layers, by digest) and a config (how it is run, and its layers by the digests of their
 * plain tars). Docker's formats and those of the OCI have the same fields. All of it is untrusted and checked here.
 */

import { z } from "zod";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { ImageConfig } from "../../../core/model/image.ts";
import { refusal } from "./refusal.ts";

/** Part of an image in a manifest. */
export interface Descriptor {
  /** as 64 hexadecimal digits */
  digest: string;
  /** bytes */
  size?: number | undefined;
  mediaType?: string | undefined;
}

export interface Manifest {
  config: Descriptor;
  /** lowest first */
  layers: Descriptor[];
}

/** A config, checked: how the image is run, and its layers. */
export interface ReadConfig {
  config: ImageConfig;
  env: Record<string, string>;
  /** digests of the layers' plain tars, lowest first, as 64 hexadecimal digits */
  diffIds: string[];
}

/** the most layers of an image, from any source */
export const mostLayers = 200;
/** how deep indexes may be nested; real images have fewer levels */
export const deepestIndex = 3;
/** largest index, manifest or config, in bytes */
export const largestJson = 4 << 20;
/** bytes of all variables together: as many as a program can start with, minus some room for its arguments */
const largestEnvironment = 128 << 10;

/** "index" if it points to further manifests */
export type ReadManifest =
  | { kind: "manifest"; manifest: Manifest }
  | { kind: "index"; choose(): Descriptor & { tag: string | undefined } };

/** parses an index or a manifest, whatever its name */
export function readManifest(name: string, content: Buffer): ReadManifest {
  const value = json(name, content);
  const index = indexFile.safeParse(value);
  if (index.success) return { kind: "index", choose: () => choose(index.data.manifests) };
  const first = z.object({ schemaVersion: z.literal(1) }).safeParse(value);
  if (first.success) throw refusal(`${name} has Docker's first format, which is not supported; push the image again`);
  const { config, layers } = check(name, value, manifestFile);
  return { kind: "manifest", manifest: { config: plain(config), layers: layers.map(plain) } };
}

export function readConfig(content: Buffer): ReadConfig {
  const file = check("its config", json("its config", content), configFile);
  if (!isOurs(file)) {
    const wants = `${file.os ?? "linux"}/${file.architecture}`;
    throw new SandkeepError("unsupported", `Cannot import the image: it is for ${wants}, not linux/${architecture()}`);
  }
  const { config, history, author, created } = file;
  return {
    diffIds: file.rootfs.diff_ids.map(hexOf),
    env: environment(config?.Env ?? []),
    config: {
      user: config?.User ?? "",
      cwd: config?.WorkingDir ?? "",
      entrypoint: config?.Entrypoint ?? [],
      command: config?.Cmd ?? [],
      ports: Object.keys(config?.ExposedPorts ?? {}),
      volumes: Object.keys(config?.Volumes ?? {}),
      labels: config?.Labels ?? {},
      ...(config?.StopSignal && { stopSignal: config.StopSignal }),
      ...(config?.Shell && { shell: config.Shell }),
      ...(config?.OnBuild?.length && { onBuild: config.OnBuild }),
      ...(author && { author }),
      ...timeOf("builtAt", created),
      history: (history ?? []).map((step) => ({
        createdBy: step.created_by ?? "",
        ...(step.comment && { comment: step.comment }),
        ...timeOf("createdAt", step.created),
        ...(step.empty_layer && { isEmpty: true }),
      })),
    },
  };
}

/** refuses layers that differ between the config and the manifest */
export function checkLayers(layers: unknown[], { diffIds }: ReadConfig): void {
  if (diffIds.length === layers.length && layers.length > 0) return;
  throw refusal(`it has ${layers.length} layers where its config names ${diffIds.length}`);
}

export function parse<T>(name: string, content: Buffer, schema: z.ZodType<T>): T {
  return check(name, json(name, content), schema);
}

export function hexOf(digest: string): string {
  return digest.slice("sha256:".length);
}

/** this machine's processor, by its name in images */
export function architecture(): string {
  return architectures[process.arch] ?? process.arch;
}

const architectures: Record<string, string> = { x64: "amd64", arm64: "arm64" };

const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/, "only sha256 digests are supported");
const words = z.array(z.string().max(1 << 20)).max(10_000);
const longText = z.string().max(1 << 20);

const configFile = z.object({
  architecture: z.string().optional(),
  os: z.string().optional(),
  author: longText.nullish(),
  created: z.string().nullish(),
  config: z
    .object({
      Env: z.array(z.string()).nullish(),
      User: z.string().max(256).nullish(),
      WorkingDir: z.string().max(4096).nullish(),
      Entrypoint: words.nullish(),
      Cmd: words.nullish(),
      Shell: words.nullish(),
      OnBuild: words.nullish(),
      ExposedPorts: z.record(z.string(), z.unknown()).nullish(),
      Volumes: z.record(z.string(), z.unknown()).nullish(),
      Labels: z.record(z.string(), longText).nullish(),
      StopSignal: z.string().max(64).nullish(),
    })
    .nullish(),
  history: z
    .array(
      z.object({
        created: z.string().nullish(),
        created_by: longText.nullish(),
        comment: longText.nullish(),
        empty_layer: z.boolean().nullish(),
      }),
    )
    .max(10_000)
    .nullish(),
  rootfs: z.object({ diff_ids: z.array(digest).max(mostLayers) }),
});

const descriptor = z.object({
  digest,
  size: z.int().min(0).optional(),
  mediaType: z.string().optional(),
  platform: z
    .object({ os: z.string().optional(), architecture: z.string().optional(), variant: z.string().optional() })
    .nullish(),
  annotations: z.record(z.string(), z.string()).nullish(),
});
const indexFile = z.object({ manifests: z.array(descriptor).max(1000) });
const manifestFile = z.object({ config: descriptor, layers: z.array(descriptor).max(mostLayers) });

interface Platform {
  os?: string | undefined;
  architecture?: string | undefined;
}

/** the manifest for this machine */
function choose(manifests: z.infer<typeof descriptor>[]): Descriptor & { tag: string | undefined } {
  const fitting = manifests.filter(({ platform }) => !platform || isOurs(platform));
  const [chosen] = fitting;
  if (!chosen) {
    throw new SandkeepError("unsupported", `Cannot import the image: it has nothing for linux/${architecture()}`);
  }
  if (new Set(fitting.map(({ digest }) => digest)).size > 1) {
    throw refusal(`it holds ${fitting.length} images for linux/${architecture()}; save one at a time`);
  }
  const { annotations } = chosen;
  const tag = annotations?.["io.containerd.image.name"] ?? annotations?.["org.opencontainers.image.ref.name"];
  return { ...plain(chosen), tag };
}

function plain({ digest, size, mediaType }: z.infer<typeof descriptor>): Descriptor {
  return { digest: hexOf(digest), size, mediaType };
}

function environment(entries: string[]): Record<string, string> {
  const length = entries.reduce((sum, entry) => sum + entry.length + 1, 0);
  if (length > largestEnvironment) {
    throw new SandkeepError(
      "limit",
      `Cannot import the image: its environment has ${length} bytes, more than ${largestEnvironment}`,
    );
  }
  if (entries.some((entry) => entry.includes("\0"))) throw refusal("its environment has a NUL in it");
  const pairs = entries.map((entry) => [entry.split("=", 1)[0] ?? "", entry.slice(entry.indexOf("=") + 1)] as const);
  return Object.fromEntries(pairs.filter(([name]) => name !== "" && name !== "__proto__"));
}

function timeOf<Field extends string>(field: Field, text: string | null | undefined): { [name in Field]?: number } {
  const time = Date.parse(text ?? "");
  // TypeScript infers too wide a type for an object with a computed name.
  return (Number.isNaN(time) ? {} : { [field]: time }) as { [name in Field]?: number };
}

function isOurs({ os = "linux", architecture: machine = architecture() }: Platform): boolean {
  return os === "linux" && machine === architecture();
}

function check<T>(name: string, value: unknown, schema: z.ZodType<T>): T {
  const result = schema.safeParse(value);
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
