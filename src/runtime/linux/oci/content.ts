/** An image that comes in, whichever way: its layers as files to unpack, and what its maker says of it. */

import type { ImageConfig } from "../../../core/model/image.ts";

export interface ImageContent {
  /** lowest first */
  layers: ContentLayer[];
  config: ImageConfig;
  env: Record<string, string>;
}

export interface ContentLayer {
  /** what errors call it */
  name: string;
  /** of its plain tar, as 64 hexadecimal digits */
  diffId: string;
  /** of its file, as 64 hexadecimal digits; undefined where nobody says */
  digest?: string | undefined;
  /** bytes of its file; undefined where nobody says */
  packedSize?: number | undefined;
  /** whether open() itself checks the digest and the size of its file */
  isChecked?: boolean;
  /** its file: a tar, plain or compressed with gzip or zstd. Not called for layers that are in the store */
  open(): AsyncIterable<Uint8Array>;
}
