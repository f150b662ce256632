/**
 * Reads the output journals that agents write (src/protocols/output-journal.ts has the format): from any offset, while the command
 * runs and after it ended. What it reads was written inside a sandbox's reach, so every length is checked.
 */

import { closeSync, constants, fstatSync, openSync, readdirSync, readSync } from "node:fs";
import { join } from "node:path";
import { codeOf } from "../../../base/error-code.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { OutputChunk } from "../../../core/ports/runtime.ts";
import {
  type CommandInfo,
  infoFile,
  type OutputStream,
  readCommandInfo,
  recordAt,
  recordHead,
  segmentFile,
  segmentStart,
} from "../../../protocols/output-journal.ts";

/** what is known of a command while it is read */
export interface OutputState {
  /** end of its output so far */
  readonly end: number;
  /** nothing will be added before `end` any more */
  readonly ended: boolean;
  /** resolves when one of the two has changed */
  changed(signal?: AbortSignal): Promise<void>;
}

const readLength = 128 << 10;
/** longest frames about a command: the longest arguments, and some more */
const largestInfo = 16 << 20;

/**
 * the chunks of a command's output from an offset on; ends when the state says that it has ended. Calls `taken` with the
 * end of a chunk when its reader asks for the next one.
 */
export async function* readJournal(
  directory: string,
  command: string,
  state: OutputState,
  options: { from: number; follow: boolean; signal?: AbortSignal | undefined; taken?: (end: number) => void },
): AsyncGenerator<OutputChunk> {
  if (!Number.isSafeInteger(options.from) || options.from < 0) {
    throw new SandkeepError("invalid", `Cannot read output from ${options.from}: an offset is a whole number of bytes`);
  }
  const reader = new SegmentReader(directory, command, options.from);
  try {
    for (;;) {
      options.signal?.throwIfAborted();
      const { end, ended } = state;
      for (const chunk of reader.read(end, ended ? end : Number.MAX_SAFE_INTEGER)) {
        yield chunk;
        options.taken?.(chunk.offset + chunk.data.length);
      }
      if (state.end > reader.offset) continue;
      if (ended || !options.follow) return;
      await state.changed(options.signal);
    }
  } finally {
    reader.close();
  }
}

/** the whole output of a command on a machine that is gone */
export function readEnded(
  directory: string,
  command: string,
  info: CommandInfo,
  from = 0,
): AsyncGenerator<OutputChunk> {
  const end = info.exit?.outputEnd ?? journalEnd(directory, command);
  const state = { end, ended: true, changed: () => Promise.resolve() };
  return readJournal(directory, command, state, { from, follow: false });
}

/** what the journal says about a command; undefined when it has none or its first frame is not whole */
export function readInfo(directory: string, command: string): CommandInfo | undefined {
  try {
    return readCommandInfo(readPlainFile(join(directory, infoFile(command))));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** where the journal's output ends, for a command that died with its machine */
export function journalEnd(directory: string, command: string): number {
  const last = segments(directory, command).at(-1);
  if (last === undefined) return 0;
  const reader = new SegmentReader(directory, command, last);
  try {
    for (const _ of reader.read(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER));
    return reader.offset;
  } finally {
    reader.close();
  }
}

/** Walks over the records of one segment after the other. */
class SegmentReader {
  readonly #directory: string;
  readonly #command: string;
  /** offset of the next byte to hand out */
  offset: number;
  #fd: number | undefined;
  /** first offset of the open segment; where in it the next record begins, and the offset of that */
  #start = 0;
  #position = 0;
  #at = 0;
  #dropped = 0;

  constructor(directory: string, command: string, from: number) {
    this.#directory = directory;
    this.#command = command;
    this.offset = from;
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  /**
   * the output that is there now, at least up to `end`, never past `limit`; lost bytes are reported with the chunk that
   * follows, or at the end
   */
  *read(end: number, limit: number): Generator<OutputChunk> {
    while (this.offset < end) {
      if (this.#fd === undefined && !this.#open()) break;
      const position = this.#position;
      yield* this.#records(end, limit);
      if (this.#position === position && !this.#next()) break;
    }
    if (this.offset < end && end !== Number.MAX_SAFE_INTEGER) {
      this.#dropped += end - this.offset;
      this.offset = end;
      yield this.#chunk("stdout", Buffer.alloc(0));
    }
  }

  /** opens the segment that holds the offset, or the first one after it */
  #open(): boolean {
    if (this.#openAt(this.offset)) return true;
    // The segment was deleted since the listing: list again.
    for (;;) {
      const starts = segments(this.#directory, this.#command);
      const start = starts.findLast((candidate) => candidate <= this.offset) ?? starts[0];
      if (start === undefined) return false;
      if (this.#openAt(start)) return true;
    }
  }

  #openAt(start: number): boolean {
    try {
      this.#fd = openPlainFile(join(this.#directory, segmentFile(this.#command, start)));
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
    this.#start = start;
    this.#position = 0;
    this.#at = start;
    if (start > this.offset) {
      this.#dropped += start - this.offset;
      this.offset = start;
    }
    return true;
  }

  /** goes on to the segment after this one, if there is one already */
  #next(): boolean {
    const before = this.#fd;
    for (;;) {
      const start = segments(this.#directory, this.#command).find((candidate) => candidate > this.#start);
      if (start === undefined) return false;
      if (this.#openAt(start)) break;
    }
    if (before !== undefined) closeSync(before);
    return true;
  }

  /** the whole records that one read brings */
  #records(end: number, limit: number): OutputChunk[] {
    if (this.#fd === undefined) return [];
    const buffer = Buffer.allocUnsafe(Math.min(readLength, Math.max(4096, end - this.#at + recordHead * 16)));
    const length = readSync(this.#fd, buffer, 0, buffer.length, this.#position);
    const chunks: OutputChunk[] = [];
    let at = 0;
    while (at + recordHead <= length) {
      const record = recordAt(buffer, at);
      // A damaged record hides what follows it in its segment: that counts as dropped.
      if (!record) break;
      const { stream, size } = record;
      if (at + recordHead + size > length) {
        if (at === 0 && length === buffer.length) return this.#largeRecord(stream, size, limit);
        break;
      }
      this.#hand(chunks, stream, buffer.subarray(at + recordHead, at + recordHead + size), limit);
      at += recordHead + size;
    }
    this.#position += at;
    return chunks;
  }

  /** a record that is longer than what was asked for */
  #largeRecord(stream: OutputStream, size: number, limit: number): OutputChunk[] {
    const data = Buffer.allocUnsafe(size);
    if (this.#fd === undefined || readSync(this.#fd, data, 0, size, this.#position + recordHead) < size) return [];
    this.#position += recordHead + size;
    const chunks: OutputChunk[] = [];
    this.#hand(chunks, stream, data, limit);
    return chunks;
  }

  #hand(chunks: OutputChunk[], stream: OutputStream, data: Buffer, limit: number): void {
    const from = Math.max(0, this.offset - this.#at);
    const upTo = Math.min(data.length, Math.max(0, limit - this.#at));
    this.#at += data.length;
    if (from < upTo) chunks.push(this.#chunk(stream, data.subarray(from, upTo)));
  }

  #chunk(stream: OutputStream, data: Buffer): OutputChunk {
    const chunk: OutputChunk = { offset: this.offset, stream, data };
    if (this.#dropped > 0) chunk.dropped = this.#dropped;
    this.#dropped = 0;
    this.offset += data.length;
    return chunk;
  }
}

const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** opens what an agent wrote; a link or anything else that is no file counts as missing, and is neither followed nor waited for */
function openPlainFile(path: string): number {
  const fd = openSync(path, flags);
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  throw Object.assign(new Error(`"${path}" is not a file`), { code: "ENOENT" });
}

function readPlainFile(path: string): Buffer {
  const fd = openPlainFile(path);
  try {
    const size = Math.min(fstatSync(fd).size, largestInfo);
    const data = Buffer.alloc(size);
    return data.subarray(0, readSync(fd, data, 0, size, 0));
  } finally {
    closeSync(fd);
  }
}

/** first offsets of the command's segments, ascending */
function segments(directory: string, command: string): number[] {
  return readdirSync(directory, { withFileTypes: true })
    .flatMap((entry) => (entry.isFile() ? (segmentStart(command, entry.name) ?? []) : []))
    .sort((a, b) => a - b);
}

function isMissing(error: unknown): boolean {
  // O_NOFOLLOW says ELOOP of a link
  return ["ENOENT", "ELOOP", "ENXIO"].includes(codeOf(error) ?? "");
}
