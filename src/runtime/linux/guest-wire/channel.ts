/**
 * A connection to the launcher or to an agent: requests get their answers by number, events go to a listener.
 * When the other side is gone every open request fails with the same sentence.
 */

import { connect, type Socket } from "node:net";
import { constants } from "node:os";
import { codeOf } from "../../../base/error-code.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import {
  type Frame,
  FrameParser,
  FrameReader,
  FrameWriter,
  Type,
  wireVersion,
} from "../../../protocols/guest-frames.ts";
import { FileSession } from "../files/file-session.ts";
import { isOwnLimit } from "../host/kernel-file.ts";
import { errnoOf, failure, typed, withoutFolders } from "./failure.ts";
import { answers } from "./silence.ts";

export interface ChannelEvents {
  /** a frame that answers no request */
  event?(frame: Frame): void;
  /** called once */
  closed?(): void;
}

/** The other side lives, and was started by a version of Sandkeep with other frames. */
export class OtherWireVersion extends SandkeepError {
  constructor(name: string, cause: unknown) {
    const what = `it does not speak version ${wireVersion} of the frames, so another version of Sandkeep started it`;
    super("conflict", `Cannot talk to ${name}: ${what}; use that version, or stop its sandboxes with it`, { cause });
  }
}

/** The other side lives and does not answer, as after SIGSTOP. */
export class Unanswered extends SandkeepError {
  constructor(name: string, path: string, patience: number) {
    const what = `it has not answered for ${patience / 1000} s`;
    super("unavailable", `Cannot talk to ${name}: ${what}; the process that listens at "${path}" may be stopped`);
  }
}

/** No process listens at the socket, so a request was not even sent. */
export class NothingAnswers extends SandkeepError {
  constructor(name: string, cause: unknown) {
    super("gone", `Cannot connect to ${name}: nothing answers`, { cause });
  }
}

/** how long the other side may take to agree on the version, in ms */
const longestHello = 20_000;

/** how long a helper of the launcher may work on one request for files, such as the deletion of a large tree, in ms */
const longestFileRequest = 30 * 60_000;

interface Pending {
  resolve(reader: FrameReader): void;
  reject(error: Error): void;
}

export class Channel {
  readonly #socket: Socket;
  readonly #name: string;
  readonly #parser = new FrameParser();
  readonly #pending = new Map<number, Pending>();
  readonly #events: ChannelEvents;
  #nextId = 1;
  /** set once it has ended */
  #ended: { cause: Error | undefined } | undefined;

  private constructor(socket: Socket, name: string, events: ChannelEvents) {
    this.#socket = socket;
    this.#name = name;
    this.#events = events;
    socket.on("end", () => this.close());
    socket.on("error", (error) => this.#end(error));
    socket.on("close", () => this.#end());
  }

  /** connects and agrees on the version; `name` stands in error sentences */
  static async open(path: string, name: string, events: ChannelEvents = {}, patience = longestHello): Promise<Channel> {
    let channel: Channel | undefined;
    const socket = await dial(path, name, (chunk) => {
      if (channel) channel.#take(chunk);
    });
    channel = new Channel(socket, name, events);
    const hello = channel.request(Type.hello, new FrameWriter().u32(wireVersion));
    try {
      if (!(await answers(hello, patience))) throw new Unanswered(name, path, patience);
      await hello;
    } catch (error) {
      channel.close();
      throw errnoOf(error) === constants.errno.EPROTO ? new OtherWireVersion(name, error) : error;
    }
    return channel;
  }

  request(type: number, payload: FrameWriter = new FrameWriter()): Promise<FrameReader> {
    if (this.#ended) return Promise.reject(this.#gone(this.#ended.cause));
    const id = this.#nextId;
    this.#nextId = id === 0xffffffff ? 1 : id + 1;
    const frame = payload.frame(type, id);
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#socket.write(frame);
    });
  }

  close(): void {
    this.#socket.destroy();
    this.#end();
  }

  /** fails the open requests, whose answers are ignored; the connection stays */
  interrupt(reason: Error): void {
    for (const pending of this.#pending.values()) pending.reject(reason);
    this.#pending.clear();
  }

  #take(chunk: Buffer): void {
    try {
      for (const frame of this.#parser.push(chunk)) this.#dispatch(frame);
    } catch (error) {
      this.#socket.destroy();
      this.#end(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #dispatch(frame: Frame): void {
    const pending = this.#pending.get(frame.id);
    if (frame.id === 0) {
      this.#events.event?.(frame);
    } else if (pending) {
      this.#pending.delete(frame.id);
      if (frame.type === Type.fail) pending.reject(failure(frame.payload));
      else pending.resolve(new FrameReader(frame.payload));
    }
  }

  #end(cause?: Error): void {
    if (this.#ended) return;
    this.#ended = { cause };
    // Most connections end without a request: an error, with its stack, is made for those that fail.
    if (this.#pending.size > 0) this.interrupt(this.#gone(cause));
    this.#events.closed?.();
  }

  #gone(cause: Error | undefined): SandkeepError {
    return new SandkeepError("gone", `The connection to ${this.#name} has ended`, { cause });
  }
}

/**
 * a connection that begins with FILES (as a user) or FILES_AT (below a directory) and is a file session from then on;
 * `connected` gets it before it has begun
 */
export async function openFiles(
  path: string,
  name: string,
  type: typeof Type.files | typeof Type.filesAt,
  argument: string,
  connected: (session: FileSession) => void = () => undefined,
  longest = longestFileRequest,
): Promise<FileSession> {
  const socket = await dial(path, name);
  const session = new FileSession(socket);
  const why = `Cannot finish the file request: ${name}'s helper has not answered for ${longest / 1000} s`;
  // How long a sandbox may take is up to the clients of its files.
  if (type === Type.filesAt) socket.setTimeout(longest, () => session.giveUp(new SandkeepError("unavailable", why)));
  connected(session);
  try {
    await session.begin(type, argument);
    return session;
  } catch (error) {
    session.close();
    throw error;
  }
}

/**
 * the answer of a helper process that serves one request on a connection of its own. One that is stopped, or waits for a
 * disk that hangs, is given up after `longest` ms; it ends by itself when it goes on
 */
export async function askAlone(path: string, name: string, request: Buffer, longest: number): Promise<void> {
  const { promise: answer, resolve, reject } = Promise.withResolvers<Frame>();
  const gone = (who: string, cause?: unknown) =>
    reject(new SandkeepError("gone", `Cannot finish the request: ${who} died`, { cause }));
  const parser = new FrameParser();
  const socket = await dial(path, name, (chunk) => {
    try {
      for (const frame of parser.push(chunk)) resolve(frame);
    } catch (error) {
      gone(name, error);
    }
  });
  socket.once("error", (error) => gone(name, error));
  socket.once("end", () => gone(`${name}'s helper`));
  try {
    socket.write(request);
    if (!(await answers(answer, longest))) throw unanswered(name, longest);
    const { type, payload } = await answer;
    if (type !== Type.ok) throw withoutFolders(failure(payload));
  } finally {
    socket.destroy();
  }
}

/** the error of a request to a helper process that has not answered within `longest` ms */
export function unanswered(name: string, longest: number): SandkeepError {
  const why = `${name}'s helper has not answered for ${longest / 1000} s`;
  return new SandkeepError("unavailable", `Cannot finish the request: ${why}`);
}

/** number of attempts, 1 ms apart, while the queue of new connections is full */
const patience = 5000;

/** connects to a unix socket; what arrives goes to `taken`, if given, instead of the socket's reader */
export async function dial(path: string, name: string, taken?: (chunk: Buffer) => void): Promise<Socket> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await connectedTo(path, taken);
    } catch (cause) {
      // The other side may live.
      if (isOwnLimit(cause)) throw typed(cause, `Cannot connect to ${name}`);
      if (codeOf(cause) !== "EAGAIN" || attempt === patience) throw new NothingAnswers(name, cause);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }
}

/** Node would make a buffer of 64 KiB for each answer of a few bytes: one for all of them does, as each is copied out */
const arrivals = Buffer.allocUnsafeSlow(64 << 10);

function connectedTo(path: string, taken?: (chunk: Buffer) => void): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const onread = taken && {
      buffer: arrivals,
      callback: (length: number) => {
        taken(Buffer.from(arrivals.subarray(0, length)));
        return true;
      },
    };
    const socket = connect({ path, allowHalfOpen: true, ...(onread && { onread }) });
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      resolve(socket);
    });
  });
}
