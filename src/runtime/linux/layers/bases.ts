/**
 * The layer that a machine's volume begins as a copy of.
 *
 * overlayfs treats all subvolumes of one btrfs as one file system, although each numbers its inodes from 257 on. If two
 * of them lay in one root, different files would have the same number, and tar, mv or rsync would confuse them. So a
 * root has one subvolume only. The layers of an image that are in the store are merged into its base, and a machine
 * writes into a copy of that. A resume or a fork writes into a copy of the machine's volume. Copies keep the numbers.
 * Below the volume lie at most directories of the host, which is another file system.
 *
 * In a store without subvolumes every file has its own number, wherever it is: there the layers of the image are mounted
 * below the machine's volume.
 */

import type { ImageRecord, ImageStore } from "../images/images.ts";
import type { LayerStore } from "./layers.ts";

export interface BaseStores {
  layers: LayerStore;
  images: ImageStore;
}

/** the layers mounted for machines of an image, besides their own volume */
export interface BaseLayers {
  /** the layer to copy; undefined where a machine begins with an empty volume */
  base: string | undefined;
  /** layers below the volume, topmost first; none where the volume is complete by itself */
  below: string[];
}

/** for a machine that boots from the image; makes the base if it is missing */
export async function foundation(stores: BaseStores, image: ImageRecord): Promise<BaseLayers> {
  const { layers } = stores;
  if (!layers.hasVolumes) return { base: undefined, below: image.layers };
  const { base } = await withBase(stores, image);
  return { base, below: (await layers.sorted(image.layers)).host };
}

const making = new Map<string, Promise<ImageRecord>>();

/** the image with its base, where the store has subvolumes */
export async function withBase(stores: BaseStores, image: ImageRecord): Promise<ImageRecord> {
  const { layers } = stores;
  if (!layers.hasVolumes || (image.base !== undefined && (await layers.get(image.base)))) return image;
  const key = `${layers.empty} ${image.name}@${image.version}`;
  const made = making.get(key) ?? makeBase(stores, image).finally(() => making.delete(key));
  making.set(key, made);
  return made;
}

async function makeBase({ layers, images }: BaseStores, image: ImageRecord): Promise<ImageRecord> {
  const claim = await layers.claim();
  try {
    for (const id of image.layers) await claim.add(id);
    const { own, host } = await layers.sorted(image.layers);
    const base = await layers.flatten(claim, own, { bottom: host.length === 0 });
    return await images.setBase(image, base.id);
  } finally {
    await claim.release();
  }
}
