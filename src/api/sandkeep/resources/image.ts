/** An image: what sandboxes start from. */

import { z } from "zod";
import type { ImageInfo } from "../../../core/ports/runtime.ts";
import { time } from "./values.ts";

export const imageResource = z
  .object({
    name: z.string(),
    digest: z.string().nullable().meta({ description: "Of its content, as sha256:…" }),
    createdAt: time,
  })
  .meta({ id: "Image" });

export function printImage({ name, digest, createdAt }: ImageInfo): z.input<typeof imageResource> {
  return { name, digest: digest === undefined ? null : `sha256:${digest}`, createdAt };
}
