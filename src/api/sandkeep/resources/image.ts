/** An image: what sandboxes start from. */

import { z } from "zod";
import type { SizedImage } from "../../../core/builds/builds.ts";
import type { ImageInfo } from "../../../core/ports/images.ts";
import { time } from "./values.ts";

export const imageResource = z
  .object({
    name: z.string(),
    digest: z.string().nullable().meta({ description: "Of its content, as sha256:…" }),
    createdAt: time,
    entrypoint: z.array(z.string()).meta({ description: "The program that it is made for" }),
    command: z.array(z.string()).meta({ description: "Arguments of the entrypoint, or the whole command without one" }),
    stopSignal: z.string().nullable().meta({ description: "What asks that program to end; null for SIGTERM" }),
    user: z.string(),
    cwd: z.string(),
    ports: z.array(z.string()).meta({ description: "Such as 8080/tcp" }),
  })
  .meta({ id: "Image" });

const source = z.object({
  reference: z.string().meta({ description: "The full name that it was pulled by" }),
  digest: z.string().meta({ description: "Of its manifest there, as sha256:…" }),
});

export const sizedImage = imageResource.extend({
  own: z.boolean().meta({ description: "Whether it is the team's" }),
  size: z
    .object({
      total: z.number(),
      shared: z.number().meta({ description: "What other images of the team or the host have too" }),
      own: z.number(),
    })
    .meta({ description: "Bytes of its unpacked files" }),
  layers: z.number(),
  source: source.nullable().meta({ description: "Where it was pulled from" }),
});

export const imageDetails = sizedImage.extend({
  env: z.record(z.string(), z.string()),
  labels: z.record(z.string(), z.string()),
  volumes: z.array(z.string()),
  history: z
    .array(
      z.object({
        createdBy: z.string(),
        comment: z.string().nullable(),
        createdAt: time.nullable(),
        isEmpty: z.boolean().meta({ description: "Whether the step changed no files" }),
      }),
    )
    .meta({ description: "The steps that made it, oldest first" }),
  parts: z
    .array(z.object({ diffId: z.string(), digest: z.string().nullable(), size: z.number() }))
    .nullable()
    .meta({ description: "Its layers as they were published, lowest first; null if it was made here" }),
});

export function printSizedImage({ image, sizes }: SizedImage): z.input<typeof sizedImage> {
  const { owner, parts, layers, source } = image;
  return {
    ...printImage(image),
    own: owner !== undefined,
    size: sizes,
    layers: parts?.length ?? layers.length,
    source: source ? { reference: source.reference, digest: `sha256:${source.manifest}` } : null,
  };
}

export function printImageDetails(sized: SizedImage): z.input<typeof imageDetails> {
  const { env, config, parts } = sized.image;
  const digestOf = (digest: string | undefined) => (digest === undefined ? null : `sha256:${digest}`);
  return {
    ...printSizedImage(sized),
    env,
    labels: config?.labels ?? {},
    volumes: config?.volumes ?? [],
    history: (config?.history ?? []).map(({ createdBy, comment, createdAt, isEmpty }) => {
      return { createdBy, comment: comment ?? null, createdAt: createdAt ?? null, isEmpty: isEmpty ?? false };
    }),
    parts:
      parts?.map(({ diffId, digest, size }) => ({ diffId: `sha256:${diffId}`, digest: digestOf(digest), size })) ??
      null,
  };
}

export function printImage(image: ImageInfo): z.input<typeof imageResource> {
  const { name, digest, createdAt, config, user, cwd } = image;
  return {
    name,
    digest: digest === undefined ? null : `sha256:${digest}`,
    createdAt,
    entrypoint: config?.entrypoint ?? [],
    command: config?.command ?? [],
    stopSignal: config?.stopSignal ?? null,
    user,
    cwd,
    ports: config?.ports ?? [],
  };
}
