/** Answers that begin before their content is complete: streams of lines, and JSON that takes long to compute. */

import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import { eitherSignal } from "../../base/concurrency/either-signal.ts";
import { Answer } from "./answer.ts";
import { drained } from "./connection/drained.ts";
import { asciiJson } from "./http.ts";
import { type LivePieces, liveBody } from "./live-body.ts";

export interface Live {
  /** what the body says about an error: the status has been sent by then */
  failure: (error: unknown) => unknown;
  /** longest silence, in ms */
  patience: number;
  /** aborted when the daemon is stopping: streams of lines then end with `failure` */
  ending?: AbortSignal | undefined;
}

/** the content type has no charset, since clients do not recognize it with one */
export function ndjson(lines: (signal: AbortSignal) => AsyncIterable<object>, live: Live): Response {
  const { failure, patience, ending } = live;
  async function* pieces(signal: AbortSignal): AsyncGenerator<string> {
    const either = eitherSignal(signal, ending);
    try {
      for await (const line of lines(either.signal)) yield `${asciiJson(line)}\n`;
      either.signal.throwIfAborted();
    } catch (error) {
      if (!signal.aborted) yield `${asciiJson(failure(error))}\n`;
    } finally {
      either.release();
    }
  }
  const headers = { "content-type": "application/x-ndjson", "cache-control": "no-store" };
  return Answer.of({ pieces, filler: "\n", patience }, 200, headers);
}

/** a stream of server-sent events, each with a name and the id that a client sends to continue after it */
export function serverSentEvents<T extends object>(
  events: (signal: AbortSignal) => AsyncIterable<T>,
  label: (event: T) => { id: string; event: string },
  { failure, patience, ending }: Live,
): Response {
  async function* pieces(signal: AbortSignal): AsyncGenerator<string> {
    const either = eitherSignal(signal, ending);
    // Sends the headers at once, so that the client knows that it is connected.
    yield ":\n\n";
    try {
      for await (const each of events(either.signal)) {
        const { id, event } = label(each);
        yield `id: ${id}\nevent: ${event}\ndata: ${asciiJson(each)}\n\n`;
      }
      either.signal.throwIfAborted();
    } catch (error) {
      if (!signal.aborted) yield `event: error\ndata: ${asciiJson(failure(error))}\n\n`;
    } finally {
      either.release();
    }
  }
  return new Response(liveBody({ pieces, filler: ":\n\n", patience }), {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
  });
}

/**
 * Sends the headers at once and then blanks, which JSON allows in front of a value: clients that wait for headers give
 * up after five minutes.
 */
export function lateJson(value: (signal: AbortSignal) => Promise<unknown>, { failure, patience }: Live): Response {
  async function* pieces(signal: AbortSignal): AsyncGenerator<string> {
    try {
      yield JSON.stringify(await value(signal));
    } catch (error) {
      if (!signal.aborted) yield JSON.stringify(failure(error));
    }
  }
  const headers = { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" };
  return Answer.of({ pieces, filler: " ", patience }, 200, headers);
}

/** how long the first pieces are held back, in ms: a short answer then leaves in one packet */
const gatheringTime = 2;
/** bytes that are held back at most */
const gatheringRoom = 16 << 10;

/**
 * Writes a live answer to Node's response, without the cost of a web stream. Like liveBody(), it writes no faster than
 * the client reads, and aborts the signal when the client disconnects.
 */
export async function sendLive(
  { pieces, filler, patience }: LivePieces,
  headers: OutgoingHttpHeaders,
  outgoing: ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  const iterator = pieces(gone.signal)[Symbol.asyncIterator]();
  const gathered = new Gathering(outgoing, headers);
  const silence = setTimeout(() => {
    // A client that does not read needs no sign of life.
    if (!outgoing.writableNeedDrain) gathered.add(filler);
    silence.refresh();
  }, patience);
  outgoing.once("close", () => {
    clearTimeout(silence);
    if (outgoing.writableEnded) return;
    gathered.drop();
    gone.abort();
    // It may wait for something that never comes. The signal informs it, so we do not wait.
    void iterator.return?.()?.catch(() => undefined);
  });
  for (;;) {
    const { done, value } = await iterator.next();
    if (gone.signal.aborted) return;
    if (done) break;
    silence.refresh();
    if (!gathered.add(value)) await drained(outgoing);
  }
  clearTimeout(silence);
  gathered.end();
}

/** Holds back the first pieces of an answer for a moment. */
class Gathering {
  readonly #outgoing: ServerResponse;
  readonly #headers: OutgoingHttpHeaders;
  #held: (string | Uint8Array)[] = [];
  #length = 0;
  readonly #timer: NodeJS.Timeout;

  constructor(outgoing: ServerResponse, headers: OutgoingHttpHeaders) {
    this.#outgoing = outgoing;
    this.#headers = headers;
    this.#timer = setTimeout(() => this.#flush(), gatheringTime);
  }

  /** false when the client reads too slowly */
  add(piece: string | Uint8Array): boolean {
    if (this.#outgoing.headersSent) return this.#outgoing.write(piece);
    this.#held.push(piece);
    this.#length += typeof piece === "string" ? Buffer.byteLength(piece) : piece.length;
    return this.#length < gatheringRoom || this.#flush();
  }

  end(): void {
    clearTimeout(this.#timer);
    if (this.#outgoing.headersSent) this.#outgoing.end();
    else this.#outgoing.writeHead(200, { ...this.#headers, "content-length": this.#length }).end(this.#take());
  }

  drop(): void {
    clearTimeout(this.#timer);
    this.#held = [];
  }

  #flush(): boolean {
    clearTimeout(this.#timer);
    this.#outgoing.writeHead(200, this.#headers);
    if (this.#length > 0) return this.#outgoing.write(this.#take());
    this.#outgoing.flushHeaders();
    return true;
  }

  /** Node sends text together with the headers, in one write */
  #take(): string | Uint8Array {
    const held = this.#held;
    this.#held = [];
    this.#length = 0;
    if (held.every((piece) => typeof piece === "string")) return held.join("");
    return Buffer.concat(held.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece)));
  }
}
