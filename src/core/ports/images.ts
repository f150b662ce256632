/** The images that machines boot from first: by name, from registries, and what is known about each. */

import type { ImageConfig, ImagePart, ImageSource } from "../model/image.ts";

export interface Images {
  /** a team's own image of this name, else the host's; without a team, the host's by name or any by its key */
  get(name: string, team?: string): Promise<ImageInfo | undefined>;
  /** the host's and a team's; without a team, all */
  list(team?: string): Promise<ImageInfo[]>;
  /** by name for the host's images, else by key */
  delete(nameOrKey: string): Promise<void>;
  /**
   * pulls an image of the host from a registry, or its new layers; callers that ask meanwhile share the pull. Returns
   * undefined if callers may not pull the name, or if it does not lead to the full reference `onlyIf`. Returns an image
   * of that name that came in another way, and does not change it
   */
  pull?: ((name: string, team: string, options?: PullImageOptions) => Promise<ImageInfo | undefined>) | undefined;
  /** throws if it is no name of an image in a registry, or in one that callers may name unless it is `fromAnywhere` */
  checkReference?: ((reference: string, options: Pick<FetchImageOptions, "fromAnywhere">) => void) | undefined;
  /** pulls an image for a caller who asks for just that; undefined where the runtime knows no registries */
  fetch?: ((reference: string, options: FetchImageOptions) => Promise<FetchedImage>) | undefined;
  /** deletes layers that no image, snapshot or machine needs, and downloads that were cut off; returns how many layers */
  prune?: (() => Promise<number>) | undefined;
  /** how large one is; with a team, only the images that it may use count as others */
  sizes(image: ImageInfo, team?: string): Promise<ImageSizes>;
  /** images by further names for them, in which `*` stands for any text */
  aliases?(): Promise<Record<string, string>>;
  /** makes a host's image available under this name, too; replaces an alias of that name */
  setAlias(pattern: string, image: string): Promise<void>;
  deleteAlias(pattern: string): Promise<void>;
}

/** Bytes of an image's unpacked layers. */
export interface ImageSizes {
  total: number;
  /** those that other images have too */
  shared: number;
  own: number;
}

export interface PullImageOptions {
  onlyIf?: string | undefined;
  /** called as bytes arrive; not if all layers are here */
  progress?: ((progress: PullProgress) => void) | undefined;
}

/** An image that a caller asks for, as it shall be here. */
export interface FetchImageOptions {
  /** the team that asks */
  team: string;
  /** the team that it will belong to; default the host, which then has it as a create would pull it */
  owner?: string | undefined;
  /** its name here; default the reference in short */
  name?: string | undefined;
  /** whether our Node is left out */
  withoutNode?: boolean | undefined;
  /** whether registries count that callers may not name; the name and Node of an image of the host need this */
  fromAnywhere: boolean;
  progress?: ((progress: PullProgress) => void) | undefined;
  /** calls `put`, which names the image, unless these layers are too many for the team */
  naming?: Naming | undefined;
  signal: AbortSignal;
}

export type Naming = <T>(name: string, layers: string[], put: () => Promise<T>) => Promise<T>;

export interface FetchedImage {
  image: ImageInfo;
  /** whether the name stood for another image, or none, before */
  isNew: boolean;
}

export interface PullProgress {
  /** bytes so far */
  received: number;
  /** bytes of all layers that were missing */
  total: number;
}

export interface ImageInfo {
  name: string;
  /** the team that owns it; without one, all teams may use it */
  owner?: string | undefined;
  /** digest of its content, as 64 hexadecimal digits */
  digest?: string | undefined;
  /** topmost first */
  layers: string[];
  env: Record<string, string>;
  user: string;
  cwd: string;
  createdAt: number;
  /** further settings of its maker; unset for the host's own image and those of older versions */
  config?: ImageConfig | undefined;
  /** set if it was pulled from a registry */
  source?: ImageSource | undefined;
  /** its layers as its maker published them, lowest first */
  parts?: ImagePart[] | undefined;
  /** PEMs of roots that were added to it, as in HostRoots; unset for an imported image */
  roots?: string | undefined;
}
