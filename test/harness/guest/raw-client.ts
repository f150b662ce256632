/** A misbehaving client: sends raw bytes and hand-made frames to a guest's socket, and collects the answers. */

import { connect, type Socket } from "node:net";
import { FrameParser, FrameReader, FrameWriter, Type } from "../../../src/protocols/guest-frames.ts";
import { eventually } from "../harness.ts";

export interface Answer {
  type: number;
  id: number;
  payload: Buffer;
}

/** The content of a FAIL. */
export interface Refusal {
  errno: number;
  what: number;
  sentence: string;
}

export class RawClient implements Disposable {
  readonly answers: Answer[] = [];
  /** the other side has closed the connection */
  closed = false;
  readonly #socket: Socket;

  private constructor(socket: Socket) {
    this.#socket = socket;
    const parser = new FrameParser();
    socket.on("data", (chunk) => this.answers.push(...parser.push(chunk as Buffer)));
    socket.on("error", () => undefined);
    socket.on("end", () => this.#ended());
    socket.on("close", () => this.#ended());
  }

  static async open(path: string): Promise<RawClient> {
    const socket = connect(path);
    await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
    return new RawClient(socket);
  }

  send(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  /** reads nothing from now on; received bytes stay in the socket */
  stopReading(): void {
    this.#socket.pause();
  }

  /** writes for as long as the other side reads; resolves when that has closed the connection */
  async flood(bytes: Uint8Array): Promise<void> {
    // the callback is called when the bytes are sent, or with the error that prevents it
    while (!this.#socket.destroyed) await new Promise((resolve) => this.#socket.write(bytes, resolve));
  }

  /** sends a request and waits for its answer */
  async ask(type: number, payload: FrameWriter = new FrameWriter(), id = 1): Promise<Answer> {
    const seen = this.answers.length;
    this.send(payload.frame(type, id));
    return eventually(`an answer to request ${type}`, () =>
      this.answers.slice(seen).find((answer) => answer.id === id),
    );
  }

  /** as ask(), for a request that must be refused */
  async refusal(type: number, payload?: FrameWriter): Promise<Refusal> {
    return refusalOf(await this.ask(type, payload));
  }

  async untilClosed(): Promise<void> {
    await eventually("the end of the connection", () => this.closed);
  }

  close(): void {
    this.#socket.destroy();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #ended(): void {
    this.closed = true;
    this.#socket.destroy();
  }
}

export function refusalOf(answer: Answer): Refusal {
  if (answer.type !== Type.fail) throw new Error(`An answer of type ${answer.type} came where a FAIL should`);
  const reader = new FrameReader(answer.payload);
  const refusal = { errno: reader.u32(), what: reader.u8(), sentence: reader.str() };
  reader.done();
  return refusal;
}

/** The same bytes for the same seed, on every host (mulberry32). */
export function randomBytes(seed: number): (length: number) => Buffer {
  let state = seed;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return (t ^ (t >>> 14)) >>> 0;
  };
  return (length) => Buffer.from(Array.from({ length }, () => next() & 0xff));
}
