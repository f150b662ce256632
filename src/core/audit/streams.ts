/** Calls whose result is a stream, such as a build: they have ended when their stream has. */

import { SandkeepError } from "../model/errors.ts";

type Stream = AsyncGenerator<unknown>;

export function isStream(value: unknown): value is Stream {
  if (typeof value !== "object" || value === null || !(Symbol.asyncIterator in value)) return false;
  return "next" in value && "return" in value && "throw" in value;
}

/** the stream; calls `ended` once: with its error if it fails, and with `gone` if its reader leaves before its end */
export function untilItsEnd(stream: Stream, ended: (error?: unknown) => void): Stream {
  let isOver = false;
  const end = (error?: unknown) => {
    if (!isOver) ended(error);
    isOver = true;
  };
  const followed = async (step: Promise<IteratorResult<unknown>>) => {
    try {
      const result = await step;
      if (result.done) end();
      return result;
    } catch (error) {
      end(error);
      throw error;
    }
  };
  /** the reader leaves, which ends the stream's work */
  const left = async (step: Promise<IteratorResult<unknown>>) => {
    try {
      return await step;
    } finally {
      end(new SandkeepError("gone", "The reader has left"));
    }
  };
  return {
    next: (...args) => followed(stream.next(...args)),
    return: (value) => left(stream.return(value)),
    throw: (error) => left(stream.throw(error)),
    [Symbol.asyncIterator]() {
      return this;
    },
    async [Symbol.asyncDispose]() {
      await this.return(undefined);
    },
  };
}
