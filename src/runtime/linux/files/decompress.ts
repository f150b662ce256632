/** Decompresses a stream: gzip, zstd or none, detected by its first bytes. */

import { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { messageOf } from "../../../core/model/errors.ts";
import { type Compression, inflate, openInflater, undecodable } from "./inflater.ts";

// Each piece is a trip to another thread and back: with Node's own 16 KiB they take most of the time.
const chunkSize = 256 << 10;
const longestMagic = 4;

/** the plain bytes; broken compression is an "invalid" error, an error of the source is passed on unchanged */
export async function* decompressed(
  source: AsyncIterable<Uint8Array>,
  open = openInflater,
): AsyncGenerator<Uint8Array> {
  const { kind, whole } = await compressionOf(source);
  if (kind === "gzip") yield* through(whole, createGunzip({ chunkSize }));
  else if (kind === "zstd") yield* frames(whole, open);
  else yield* whole;
}

/** how a stream is compressed, by its first bytes; `whole` is all of it */
export async function compressionOf(
  source: AsyncIterable<Uint8Array>,
): Promise<{ kind: Compression | undefined; whole: AsyncIterable<Uint8Array> }> {
  const chunks = source[Symbol.asyncIterator]();
  const head: Uint8Array[] = [];
  try {
    for (let length = 0; length < longestMagic; ) {
      const step = await chunks.next();
      if (step.done) break;
      // A copy, as the source may use its buffer again.
      head.push(Buffer.from(step.value));
      length += step.value.length;
    }
  } catch (error) {
    await chunks.return?.();
    throw error;
  }
  const start = Buffer.concat(head);
  return { kind: kindOf(start), whole: following(start, chunks) };
}

function kindOf(start: Buffer): Compression | undefined {
  if (start.length >= 2 && start.readUInt16BE() === 0x1f8b) return "gzip";
  if (start.length < longestMagic) return undefined;
  const magic = start.readUInt32LE();
  // The second is a frame without data, which some tools put before each other frame.
  return magic === 0xfd2fb528 || magic >>> 4 === 0x184d2a5 ? "zstd" : undefined;
}

async function* following(start: Uint8Array, chunks: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    if (start.length > 0) yield start;
    for (let step = await chunks.next(); !step.done; step = await chunks.next()) yield step.value;
  } finally {
    await chunks.return?.();
  }
}

/** zstd in this thread, which has a turn for other things after each piece */
async function* frames(source: AsyncIterable<Uint8Array>, open: typeof openInflater): AsyncGenerator<Uint8Array> {
  const inflater = open("zstd");
  if (!inflater) return yield* through(source, createZstdDecompress({ chunkSize }));
  const buffer = Buffer.allocUnsafeSlow(chunkSize);
  const next = async () => {
    await setImmediate();
    return buffer;
  };
  try {
    for await (const chunk of source) {
      for await (const piece of inflate(inflater, chunk, next)) yield Buffer.from(piece);
    }
    for await (const piece of inflate(inflater, undefined, next)) yield Buffer.from(piece);
  } finally {
    inflater.close();
  }
}

async function* through(
  source: AsyncIterable<Uint8Array>,
  transform: ReturnType<typeof createGunzip>,
): AsyncGenerator<Uint8Array> {
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
    throw undecodable(messageOf(error), error);
  } finally {
    input.destroy();
  }
}
