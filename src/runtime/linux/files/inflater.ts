/**
 * Decompresses in the calling thread, into buffers of the caller. Node has no documented way to do this: its streams make a
 * new buffer for each piece, and end a zstd stream after its first frame, of which some tools write thousands. They
 * decompress by a handle, and this uses the same handle. openInflater() returns nothing on a Node that has no such handle.
 */

import { constants, createGunzip, createZstdDecompress } from "node:zlib";
import { SandkeepError } from "../../../core/model/errors.ts";

export type Compression = "gzip" | "zstd";

/** The result of one step. */
interface Step {
  /** bytes of the input that were used */
  read: number;
  /** bytes that were put into the output */
  written: number;
}

export interface Inflater {
  /** decompresses as much as fits into the output; no input means that there is no more. Throws "invalid" for bad data */
  step(input: Uint8Array, output: Uint8Array): Step;
  close(): void;
}

export function undecodable(why: string, cause?: unknown): SandkeepError {
  return new SandkeepError("invalid", `Cannot decompress the data: ${why}`, { cause });
}

/** all of the output for a piece of the input, or for its end, in buffers that `next` gives */
export async function* inflate(
  inflater: Inflater,
  input: Uint8Array | undefined,
  next: () => Promise<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  for (let at = 0, isMore = true; isMore; ) {
    const output = await next();
    const { read, written } = inflater.step(input?.subarray(at) ?? nothing, output);
    at += read;
    if (written > 0) yield output.subarray(0, written);
    // A full buffer may leave output behind. What follows the end of a gzip stream is left in the input for ever.
    isMore = written === output.length || (at < (input?.length ?? 0) && read > 0);
  }
}

const nothing = new Uint8Array(0);

/** The handle of a stream of node:zlib. */
interface Handle {
  writeSync(
    flush: number,
    input: Uint8Array,
    inputAt: number,
    inputLength: number,
    output: Uint8Array,
    outputAt: number,
    outputLength: number,
  ): void;
  onerror(message: string): void;
}

interface Insides {
  _handle?: Partial<Handle> | null;
  /** after each write: bytes that are free in the output, and bytes of the input that are left */
  _writeState?: unknown;
}

const flushes = {
  gzip: { more: constants.Z_NO_FLUSH, end: constants.Z_FINISH },
  zstd: { more: constants.ZSTD_e_continue, end: constants.ZSTD_e_continue },
};

export function openInflater(kind: Compression): Inflater | undefined {
  const stream = kind === "gzip" ? createGunzip() : createZstdDecompress();
  // What Node keeps to itself: looked at before it is used.
  const { _handle: found, _writeState: state } = stream as unknown as Insides;
  const isKnown = typeof found?.writeSync === "function" && "onerror" in found;
  if (!isKnown || !(state instanceof Uint32Array) || state.length !== 2) {
    stream.destroy();
    return undefined;
  }
  const handle = found as Handle;
  let failure: string | undefined;
  handle.onerror = (message) => {
    failure = message;
  };
  return {
    step(input, output) {
      const flush = input.length > 0 ? flushes[kind].more : flushes[kind].end;
      handle.writeSync(flush, input, 0, input.length, output, 0, output.length);
      if (failure !== undefined) throw undecodable(failure);
      const [free = 0, left = 0] = state;
      return { read: input.length - left, written: output.length - free };
    },
    close: () => void stream.destroy(),
  };
}
