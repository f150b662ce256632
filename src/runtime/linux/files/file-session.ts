/**
 * One connection for file requests, with a method for each request of guest/files/files.c, which documents every
 * payload. Callers may make requests without waiting for answers; each is sent whole before the next. Nothing is read
 * off the connection while the consumer of an answer is slow.
 *
 * Paths are absolute. A text is sent as UTF-8; a path that is no text is given as its bytes. Names that are not UTF-8 are
 * received with U+FFFD in place of the bad bytes, except where a caller asks for byte strings.
 */

import type { Duplex } from "node:stream";
import { Queue } from "../../../base/concurrency/queue.ts";
import { isSandkeepError, messageOf, SandkeepError } from "../../../core/model/errors.ts";
import type { FileChange } from "../../../core/ports/runtime.ts";
import {
  chunkLength,
  type Frame,
  FrameParser,
  FrameReader,
  FrameWriter,
  frameHeader,
  Type,
  WireError,
} from "../../../protocols/guest-frames.ts";
import { failure } from "../guest-wire/failure.ts";
import { decodeChange, decodeEntry, type Entry } from "./file-entry.ts";
import { type Path, type WriteRequest, writeFields } from "./write-request.ts";

/** A write under way. */
export interface Writing {
  /** true once all data is sent; false when the write failed before, and needs no more data */
  sent: Promise<boolean>;
  /** settles with the answer; rejects also when the data could not be read */
  done: Promise<void>;
}

/** A file found by a walk; `contents`, if requested, are exactly entry.size bytes, and lost once the walk goes on. */
export interface WalkStep {
  entry: Entry;
  contents?: AsyncIterable<Buffer>;
}

export class FileSession {
  readonly #socket: Duplex;
  readonly #parser = new FrameParser();
  readonly #receivers = new Map<number, Receiver>();
  #lastId = 0;
  #sending: Promise<void> = Promise.resolve();
  #lost: Error | undefined;
  #isCorked = false;

  /** takes over a connection; no other code may read from it or write to it */
  constructor(socket: Duplex) {
    this.#socket = socket;
    socket.on("error", (error) => this.#fail(lost(error)));
    void this.#pump();
  }

  /** the first request of a connection: FILES with a user, or FILES_AT with a directory */
  async begin(type: typeof Type.files | typeof Type.filesAt, name: string): Promise<void> {
    await this.#ask(type, (frame) => frame.str(name));
  }

  close(reason?: Error): void {
    this.#fail(lost(reason));
    this.#socket.destroy();
  }

  /** closes it if requests wait for an answer */
  giveUp(reason: Error): void {
    if (this.#receivers.size > 0) this.close(reason);
  }

  whenClosed(call: () => void): void {
    this.#socket.once("close", call);
  }

  async *read(path: string, options: { offset?: number; length?: number } = {}): AsyncGenerator<Buffer> {
    const { offset = 0, length = toTheEnd } = options;
    for await (const frame of this.#stream(Type.read, (f) => f.str(path).u64(offset).u64(length))) yield frame.payload;
  }

  async write(path: Path, data: Contents, request?: WriteRequest): Promise<void> {
    const { sent, done } = this.beginWrite(path, data, request);
    await Promise.all([sent, done]);
  }

  beginWrite(path: Path, data: Contents, request: WriteRequest = {}): Writing {
    const id = this.#nextId();
    const head = requestFrame(Type.write, id, (frame) => writeFields(frame, path, request));
    let answered = false;
    const answer = this.#receive(id, Type.ok).finally(() => {
      answered = true;
    });
    // A failure arrives as soon as it is known: the rest of the data is not sent then.
    const sent = this.#inTurn(() => this.#sendWrite(id, head, data, () => answered));
    // If the data ends in an error, that says more than the guest's error for an incomplete write.
    const done = Promise.all([sent, answer]).then(() => undefined);
    done.catch(() => undefined);
    return { sent, done };
  }

  async stat(path: Path, options: { follow?: boolean } = {}): Promise<Entry> {
    const id = this.#nextId();
    const answer = this.#receive(id, Type.entry);
    this.#send(Type.stat, id, (frame) => frame.str(path).u8(options.follow === false ? 0 : 1));
    return decoded(decodeEntry, await answer);
  }

  /** with `bytes`, names are byte strings */
  async *list(path: Path, options: { bytes?: boolean } = {}): AsyncGenerator<Entry> {
    const decode = options.bytes ? decodeBytes : decodeEntry;
    for await (const frame of this.#stream(Type.list, (f) => f.str(path))) yield decoded(decode, frame.payload);
  }

  /** whether this made the directory; false when it existed, which is an error without `recursive` */
  async mkdir(path: Path, options: { mode?: number; recursive?: boolean } = {}): Promise<boolean> {
    const { mode = 0o755, recursive = false } = options;
    const answer = await this.#ask(Type.mkdir, (f) =>
      f
        .str(path)
        .u32(mode)
        .u8(recursive ? 1 : 0),
    );
    return new FrameReader(answer).u8() !== 0;
  }

  async move(from: string, to: string): Promise<void> {
    await this.#ask(Type.move, (f) => f.str(from).str(to));
  }

  async remove(path: Path, options: { recursive?: boolean; force?: boolean } = {}): Promise<void> {
    const { recursive = false, force = false } = options;
    await this.#ask(Type.remove, (f) =>
      f
        .str(path)
        .u8(recursive ? 1 : 0)
        .u8(force ? 1 : 0),
    );
  }

  async chmod(path: Path, mode: number): Promise<void> {
    await this.#ask(Type.chmod, (f) => f.str(path).u32(mode));
  }

  async chown(path: Path, uid: number, gid: number, options: { follow?: boolean } = {}): Promise<void> {
    await this.#ask(Type.chown, (f) =>
      f
        .str(path)
        .u32(uid)
        .u32(gid)
        .u8(options.follow === false ? 0 : 1),
    );
  }

  async symlink(target: Path, path: Path): Promise<void> {
    await this.#ask(Type.symlink, (f) => f.str(target).str(path));
  }

  /** another name for a file; a symlink is linked itself, not its target */
  async link(from: Path, to: Path): Promise<void> {
    await this.#ask(Type.link, (f) => f.str(from).str(to));
  }

  async utime(path: Path, modifiedAt: number, options: { follow?: boolean } = {}): Promise<void> {
    await this.#ask(Type.utime, (f) =>
      f
        .str(path)
        .u64(modifiedAt)
        .u8(options.follow === false ? 0 : 1),
    );
  }

  async fifo(path: Path, mode: number): Promise<void> {
    await this.#ask(Type.fifo, (f) => f.str(path).u32(mode));
  }

  /** resolves once the watch is in place; the changes end when the path is gone. The last request of a session */
  async watch(path: string, options: { recursive?: boolean } = {}): Promise<AsyncIterable<FileChange>> {
    const frames = this.#stream(Type.watch, (f) => f.str(path).u8(options.recursive ? 1 : 0));
    const first = await frames.next();
    if (first.value?.type !== Type.ok) throw new WireError("A watch began with no answer");
    return changes(frames);
  }

  /** with `bytes`, names are byte strings; `skipsMounts` leaves out what is mounted below, and needs `attributes` */
  async *walk(
    path: Path,
    options: { contents?: boolean; attributes?: boolean; skipsMounts?: boolean; bytes?: boolean } = {},
  ): AsyncGenerator<WalkStep> {
    const { contents = false, attributes = false, skipsMounts = false } = options;
    const decode = options.bytes ? decodeBytes : decodeEntry;
    let inFile = false;
    // An END ends the contents of a file that has begun, else the walk.
    const isLast = (frame: Frame) => {
      if (frame.type === Type.entry) inFile = contents && isFile(frame.payload);
      const last = frame.type === Type.end && !inFile;
      if (frame.type === Type.end) inFile = false;
      return last;
    };
    const fields: Fill = (f) =>
      f
        .str(path)
        .u8(contents ? 1 : 0)
        .u8(attributes ? (skipsMounts ? 2 : 1) : 0);
    const frames = this.#stream(Type.walk, fields, isLast);
    for await (const frame of frames) {
      // Other frames belong to contents that were not read.
      if (frame.type !== Type.entry) continue;
      const entry = decoded(decode, frame.payload);
      yield contents && entry.type === "file" ? { entry, contents: untilEnd(frames) } : { entry };
    }
  }

  /** an extended attribute; those of the overlay only on a connection begun by FILES_AT */
  async setAttribute(path: Path, name: Path, value: Uint8Array): Promise<void> {
    await this.#ask(Type.setxattr, (f) => f.str(path).str(name).bytes(value));
  }

  /** only on a connection begun by FILES_AT, as is the method below */
  async whiteout(path: Path): Promise<void> {
    await this.#ask(Type.whiteout, (f) => f.str(path));
  }

  /** bytes on disk and inodes at and below a path */
  async usage(path: string): Promise<{ bytes: number; inodes: number }> {
    const reader = new FrameReader(await this.#ask(Type.usage, (f) => f.str(path)));
    return { bytes: reader.u64(), inodes: reader.u64() };
  }

  #nextId(): number {
    this.#lastId = this.#lastId === 0xffffffff ? 1 : this.#lastId + 1;
    return this.#lastId;
  }

  /** a request that one OK answers */
  #ask(type: number, fill: Fill): Promise<Buffer> {
    const id = this.#nextId();
    const answer = this.#receive(id, Type.ok);
    this.#send(type, id, fill);
    return answer;
  }

  /** the answer, which must be a single frame of the given type */
  #receive(id: number, type: number): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.#listen(id, {
        take(frame) {
          if (frame.type !== type) throw new WireError(`An answer has the type ${frame.type} instead of ${type}`);
          resolve(frame.payload);
          return true;
        },
        fail: reject,
      });
    });
  }

  /** the answer's frames up to the one that `isLast`, which is yielded only if it is not an END */
  async *#stream(type: number, fill: Fill, isLast = isEnd): AsyncGenerator<Frame, undefined> {
    const id = this.#nextId();
    const queue = new Queue<Frame>(queuedFrames);
    this.#listen(id, {
      async take(frame) {
        if (isLast(frame)) {
          queue.end();
          return true;
        }
        await queue.put(frame);
        return false;
      },
      fail: (error) => queue.end(error),
    });
    this.#send(type, id, fill);
    yield* queue;
  }

  #listen(id: number, receiver: Receiver): void {
    if (this.#lost) receiver.fail(this.#lost);
    else this.#receivers.set(id, receiver);
  }

  /** sends a request in its turn; an error rejects the wait for its answer */
  #send(type: number, id: number, fill: Fill): void {
    this.#inTurn(async () => this.#put(requestFrame(type, id, fill))).catch((error) => {
      this.#receivers.get(id)?.fail(error);
      this.#receivers.delete(id);
    });
  }

  async #sendWrite(id: number, head: Buffer, data: Contents, over: () => boolean): Promise<boolean> {
    await this.#put(head);
    let isWhole = false;
    try {
      for await (const piece of data instanceof Uint8Array ? [data] : data) {
        for (let at = 0; at < piece.length && !over(); at += chunkLength) {
          const chunk = piece.subarray(at, at + chunkLength);
          await this.#put(frameHeader(chunk.length, Type.data, id), chunk);
        }
        if (over()) return false;
      }
      isWhole = true;
      return true;
    } finally {
      await this.#put(isWhole ? frameHeader(0, Type.end, id) : new FrameWriter().u8(1).frame(Type.end, id));
    }
  }

  #inTurn<T>(job: () => Promise<T>): Promise<T> {
    const turn = this.#sending.then(job);
    this.#sending = turn.then(
      () => undefined,
      () => undefined,
    );
    return turn;
  }

  /** resolves when the connection can take more; what is put in one turn of the event loop is sent together */
  async #put(...pieces: Uint8Array[]): Promise<void> {
    if (this.#lost) throw this.#lost;
    if (!this.#isCorked) {
      this.#isCorked = true;
      this.#socket.cork();
      process.nextTick(() => {
        this.#isCorked = false;
        this.#socket.uncork();
      });
    }
    let isFull = false;
    for (const piece of pieces) isFull = !this.#socket.write(piece);
    if (isFull) await drained(this.#socket);
    if (this.#lost) throw this.#lost;
  }

  async #pump(): Promise<void> {
    try {
      for await (const chunk of this.#socket) {
        for (const frame of this.#parser.push(chunk)) await this.#dispatch(frame);
      }
      this.#fail(lost());
    } catch (error) {
      this.#fail(error instanceof WireError ? broken(error) : lost(error));
      this.#socket.destroy();
    }
  }

  async #dispatch(frame: Frame): Promise<void> {
    const receiver = this.#receivers.get(frame.id);
    if (!receiver) throw new WireError(`An answer has the number ${frame.id}, which no request has`);
    if (frame.type === Type.fail) receiver.fail(failure(frame.payload));
    if (frame.type === Type.fail || (await receiver.take(frame))) this.#receivers.delete(frame.id);
  }

  #fail(error: Error): void {
    this.#lost ??= error;
    for (const receiver of this.#receivers.values()) receiver.fail(error);
    this.#receivers.clear();
  }
}

type Contents = Uint8Array | AsyncIterable<Uint8Array>;
type Fill = (frame: FrameWriter) => FrameWriter;

/** The code that waits for the answers to one request. */
interface Receiver {
  /** takes an answer other than FAIL; true when it was the last */
  take(frame: Frame): boolean | Promise<boolean>;
  fail(error: unknown): void;
}

/** the length in READ for reading to the end of the file */
const toTheEnd = 2n ** 64n - 1n;
// With frames of up to 128 KiB, at most 512 KiB wait for a slow consumer.
const queuedFrames = 4;

function isEnd(frame: Frame): boolean {
  return frame.type === Type.end;
}

/** values that do not fit their fields are the caller's mistake */
function requestFrame(type: number, id: number, fill: Fill): Buffer {
  try {
    return fill(new FrameWriter()).frame(type, id);
  } catch (cause) {
    const why = cause instanceof RangeError ? "a number does not fit its field" : messageOf(cause);
    throw new SandkeepError("invalid", `Cannot ask for that file: ${why}`, { cause });
  }
}

function decodeBytes(payload: Buffer): Entry {
  return decodeEntry(payload, "latin1");
}

/** reads the type in an ENTRY without parsing the rest */
function isFile(payload: Buffer): boolean {
  const reader = new FrameReader(payload);
  reader.bytes();
  return reader.u8() === 1;
}

function decoded<T>(decode: (payload: Buffer) => T, payload: Buffer): T {
  try {
    return decode(payload);
  } catch (error) {
    throw error instanceof WireError ? broken(error) : error;
  }
}

async function* changes(frames: AsyncIterable<Frame>): AsyncGenerator<FileChange> {
  for await (const frame of frames) yield decoded(decodeChange, frame.payload);
}

async function* untilEnd(frames: AsyncGenerator<Frame, undefined>): AsyncGenerator<Buffer> {
  for (let step = await frames.next(); !step.done && step.value.type === Type.data; step = await frames.next()) {
    yield step.value.payload;
  }
}

function drained(socket: Duplex): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      socket.off("drain", go);
      socket.off("close", go);
      resolve();
    };
    socket.on("drain", go);
    socket.on("close", go);
    if (socket.destroyed) go();
  });
}

function lost(cause?: unknown): SandkeepError {
  if (isSandkeepError(cause)) return cause;
  return new SandkeepError("gone", "Cannot finish the file request: the connection to the sandbox is closed", {
    cause,
  });
}

function broken(cause: WireError): SandkeepError {
  return new SandkeepError("internal", `Cannot finish the file request: ${cause.message}`, { cause });
}
