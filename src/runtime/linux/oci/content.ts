/** An incoming image from any source: its layers as files to unpack, and its maker's configuration. */

import type { ImageConfig } from "../../../core/model/image.ts";

export interface ImageContent {
  /** lowest first */
  layers: ContentLayer[];
  config: ImageConfig;
  env: Record<string, string>;
}

export interface ContentLayer {
  /** the name for errors */
  name: string;
  /** digest of its plain tar, as 64 hexadecimal digits */
  diffId: string;
  /** digest of its file, as 64 hexadecimal digits; undefined if unknown */
  digest?: string | undefined;
  /** bytes of its file; undefined if unknown */
  packedSize?: number | undefined;
  /** whether open() itself checks the digest and the size of its file */
  isChecked?: boolean;
  /** its file: a tar, plain or compressed with gzip or zstd. Not called for layers of images that the team has */
  open(): AsyncIterable<Uint8Array>;
  /** the same as an open file, if it is one; another thread may read it then */
  file?: () => Promise<LayerFile>;
  /** called once the layer is unpacked: its file is not needed any more */
  used?: () => Promise<void>;
}

/** A file that holds a layer, or the beginning of one. */
export interface LayerFile {
  fd: number;
  /** where the layer begins in it */
  start: number;
  /** how many bytes of the layer are there, now and whenever there are more, until all are; throws if they will not come */
  growth(signal: AbortSignal): AsyncIterable<{ length: number; isWhole: boolean }>;
}
