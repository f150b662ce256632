/**
 * A part of a command's output for a tool's answer: text up to a number of bytes, and the offset of the next part.
 * Offsets count the bytes of both streams together. Invalid UTF-8 becomes U+FFFD; the cap never splits a character.
 */

import { z } from "zod";
import type { OutputChunk } from "../../core/ports/runtime.ts";

export const maxBytes = z
  .int()
  .min(1024)
  .max(1 << 20)
  .default(64 << 10)
  .describe("Most bytes of output to return.");

export const outputFields = {
  stdout: z.string(),
  stderr: z.string(),
  next_offset: z.int().min(0).describe("Where read_command_output reads on."),
  has_more: z.boolean().describe("Whether more output is there to read."),
  dropped_bytes: z.int().min(0).describe("Bytes before this part that are no longer kept."),
};

export interface OutputPart {
  stdout: string;
  stderr: string;
  next_offset: number;
  has_more: boolean;
  dropped_bytes: number;
}

export interface PartSpec {
  from: number;
  /** most bytes */
  cap: number;
  /** whether the command has ended: then an incomplete last character is returned too */
  ended: boolean;
}

export async function outputPart(chunks: AsyncIterable<OutputChunk>, spec: PartSpec): Promise<OutputPart> {
  const parts: { stream: OutputChunk["stream"]; data: Uint8Array }[] = [];
  let room = spec.cap;
  let next = spec.from;
  let dropped = 0;
  let more = false;
  for await (const chunk of chunks) {
    more = room < chunk.data.length;
    if (room === 0) break;
    const data = chunk.data.subarray(0, room);
    parts.push({ stream: chunk.stream, data });
    dropped += chunk.dropped ?? 0;
    room -= data.length;
    next = chunk.offset + data.length;
    if (more) break;
  }
  const last = parts.at(-1);
  if (last && (more || !spec.ended)) {
    const half = unfinished(last.data);
    last.data = last.data.subarray(0, last.data.length - half);
    next -= half;
  }
  const text = (wanted: "stdout" | "stderr") =>
    Buffer.concat(
      parts.filter(({ stream }) => (stream === "stderr") === (wanted === "stderr")).map(({ data }) => data),
    );
  return {
    stdout: text("stdout").toString("utf8"),
    stderr: text("stderr").toString("utf8"),
    next_offset: next,
    has_more: more,
    dropped_bytes: dropped,
  };
}

/** the number of bytes at the end that begin an incomplete character */
export function unfinished(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) {
      const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      return length > back ? back : 0;
    }
  }
  return 0;
}
