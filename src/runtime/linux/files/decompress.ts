/** Decompresses a stream: gzip, zstd or none, detected by its first bytes. */

import { Readable } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { messageOf, SandkeepError } from "../../../core/model/errors.ts";
import { isZstd, zstdFrames } from "./zstd-frames.ts";

// Each piece is a trip to another thread and back: with Node's own 16 KiB they take most of the time.
const chunkSize = 256 << 10;
const longestMagic = 4;

/** the plain bytes; broken compression is an "invalid" error, an error of the source is passed on unchanged */
export async function* decompressed(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const chunks = source[Symbol.asyncIterator]();
  const head: Uint8Array[] = [];
  try {
    for (let length = 0; length < longestMagic; ) {
      const step = await chunks.next();
      if (step.done) break;
      head.push(step.value);
      length += step.value.length;
    }
    const start = Buffer.concat(head);
    const whole = rest(start, chunks);
    if (isGzip(start)) yield* through(whole, createGunzip({ chunkSize }));
    else if (isZstd(start)) yield* through(zstdFrames(whole), createZstdDecompress({ chunkSize }));
    else yield* whole;
  } finally {
    await chunks.return?.();
  }
}

function isGzip(start: Buffer): boolean {
  return start.length >= 2 && start.readUInt16BE() === 0x1f8b;
}

async function* rest(start: Uint8Array, chunks: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  if (start.length > 0) yield start;
  for (let step = await chunks.next(); !step.done; step = await chunks.next()) yield step.value;
}

async function* through(source: AsyncIterable<Uint8Array>, transform: ReturnType<typeof createGunzip>) {
  let sourceError: unknown;
  const input = Readable.from(source, { objectMode: false });
  input.on("error", (error) => {
    sourceError = error;
    transform.destroy(error);
  });
  try {
    yield* input.pipe(transform) as AsyncIterable<Buffer>;
  } catch (error) {
    if (sourceError !== undefined) throw sourceError;
    throw new SandkeepError("invalid", `Cannot decompress the data: ${messageOf(error)}`, { cause: error });
  } finally {
    input.destroy();
  }
}
