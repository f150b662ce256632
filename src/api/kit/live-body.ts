/** A body whose pieces are sent as they are produced, as a web stream. */

import { within } from "../../base/concurrency/waits.ts";

/** A body in pieces, and the filler to send between them, so that no proxy takes the stream for dead. */
export interface LivePieces {
  pieces: (signal: AbortSignal) => AsyncIterable<string | Uint8Array>;
  /** text or bytes that readers of this format skip */
  filler: string | Uint8Array;
  /** longest silence, in ms */
  patience: number;
}

/**
 * A body that is written as its pieces are produced, never faster than the client reads it. When the client
 * disconnects, the signal aborts, and nothing else ends.
 */
export function liveBody({ pieces, filler, patience }: LivePieces): ReadableStream<Uint8Array> {
  const gone = new AbortController();
  const encoder = new TextEncoder();
  const encoded = (piece: string | Uint8Array) => (typeof piece === "string" ? encoder.encode(piece) : piece);
  let iterator: AsyncIterator<string | Uint8Array> | undefined;
  let next: Promise<IteratorResult<string | Uint8Array>> | undefined;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        iterator ??= pieces(gone.signal)[Symbol.asyncIterator]();
        next ??= iterator.next();
        const result = await within(next, patience);
        if (gone.signal.aborted) return;
        if (result === undefined) {
          controller.enqueue(encoded(filler));
          return;
        }
        if (result.done) return controller.close();
        controller.enqueue(encoded(result.value));
        next = iterator.next();
      },
      cancel() {
        gone.abort();
        // Both may wait for something that never comes. The signal informs them, so we do not wait.
        next?.catch(() => undefined);
        void iterator?.return?.()?.catch(() => undefined);
      },
    },
    // Nothing begins before the body is read: the listener may send the pieces itself.
    new ByteLengthQueuingStrategy({ highWaterMark: 0 }),
  );
}
