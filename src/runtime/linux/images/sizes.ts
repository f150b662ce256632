/** How large an image is, and how much of it others have too. */

import { imageKey } from "../../../core/model/image.ts";
import type { ImageInfo, ImageSizes } from "../../../core/ports/images.ts";
import type { LayerStore } from "../layers/layers.ts";
import type { ImageStore } from "./images.ts";

interface Stores {
  images: Pick<ImageStore, "list">;
  layers: Pick<LayerStore, "size">;
}

/** with a team, only the images that it sees count as others */
export async function sizesOf({ images, layers }: Stores, image: ImageInfo, team?: string): Promise<ImageSizes> {
  if (!image.parts) return sized(await layers.size(image.layers), 0);
  const others = (await images.list(team)).filter((other) => imageKey(other) !== imageKey(image));
  const theirs = new Set(others.flatMap(({ parts = [] }) => parts.map(({ layer }) => layer)));
  const sum = (parts: { size: number }[]) => parts.reduce((bytes, { size }) => bytes + size, 0);
  return sized(sum(image.parts), sum(image.parts.filter(({ layer }) => theirs.has(layer))));
}

function sized(total: number, shared: number): ImageSizes {
  return { total, shared, own: total - shared };
}
