/**
 * Decompresses a layer in its own thread, into a few buffers that are used again and again. To allocate and collect a new
 * buffer for each piece would take more than half as long as the decompression itself.
 */

import { compressionOf, decompressed } from "../files/decompress.ts";
import { inflate, openInflater } from "../files/inflater.ts";

/** bytes of each buffer: all of them fit into a processor's cache */
const slabLength = 256 << 10;
const slabCount = 4;

/**
 * The plain bytes of a gzip, zstd or plain stream. `released` is called when a piece has been used, and resolves when
 * its buffer is free again. A piece is valid until then, and at least until the next one is asked for.
 */
export async function* inflated(
  source: AsyncIterable<Uint8Array>,
  released: () => Promise<void>,
  open = openInflater,
): AsyncGenerator<Uint8Array> {
  const { kind, whole } = await compressionOf(source);
  const inflater = kind && open(kind);
  if (kind && !inflater) return yield* decompressed(kept(whole), open);
  const slabs = Array.from({ length: slabCount }, () => Buffer.allocUnsafeSlow(slabLength));
  const free = slabs.map(() => Promise.resolve());
  let used = -1;
  const next = async () => {
    if (used >= 0) free[used] = released();
    used = (used + 1) % slabCount;
    await free[used];
    return slabs[used] ?? Buffer.allocUnsafeSlow(slabLength);
  };
  try {
    for await (const chunk of whole) {
      if (inflater) yield* inflate(inflater, chunk, next);
      else yield* copies(chunk, next);
    }
    if (inflater) yield* inflate(inflater, undefined, next);
  } finally {
    inflater?.close();
  }
}

/** in memory that is not used again: a stream reads it later */
async function* kept(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of source) yield Buffer.from(chunk);
}

async function* copies(chunk: Uint8Array, next: () => Promise<Uint8Array>): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < chunk.length; at += slabLength) {
    const [slab, part] = [await next(), chunk.subarray(at, at + slabLength)];
    slab.set(part);
    yield slab.subarray(0, part.length);
  }
}
