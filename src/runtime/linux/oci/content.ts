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
}
