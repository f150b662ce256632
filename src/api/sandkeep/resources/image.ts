/** An image: what sandboxes start from. */

import { z } from "zod";
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
