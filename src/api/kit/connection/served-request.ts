/**
 * A request of Node's server as a web Request. Routes read the method, the URL, some headers and the body: these come from
 * Node's request directly. Everything else that a web Request has is made when it is asked for.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { standIn } from "../web-stand-in.ts";
import { requestUrl } from "./request-url.ts";

export class ServedRequest {
  readonly incoming: IncomingMessage;
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  /** aborts when the key that authenticated the request is no longer valid */
  keyEnd: AbortSignal | undefined;
  #gone: AbortController | undefined;
  #isGone = false;
  #web: Request | undefined;

  private constructor(incoming: IncomingMessage) {
    this.incoming = incoming;
    this.method = incoming.method ?? "GET";
    this.url = requestUrl(incoming);
    this.headers = asHeaders(new ServedHeaders(incoming));
  }

  /** throws MalformedRequest if its host or its path is malformed */
  static of(incoming: IncomingMessage): ServedRequest & Request {
    return new ServedRequest(incoming) as ServedRequest & Request; // standIn() below adds what is missing
  }

  /** the one of a web Request, if Node's server received it */
  static from(request: Request): ServedRequest | undefined {
    return request instanceof ServedRequest ? request : undefined;
  }

  /** aborts when the client disconnects before its request is answered */
  get signal(): AbortSignal {
    this.#gone ??= new AbortController();
    if (this.#isGone) this.#gone.abort();
    return this.#gone.signal;
  }

  /** to be called when the connection or the answer has ended */
  closed({ writableFinished }: ServerResponse): void {
    if (writableFinished && !this.incoming.errored) return;
    this.#isGone = true;
    this.#gone?.abort();
  }

  static {
    standIn(ServedRequest, Request, (own) => {
      own.#web ??= new Request(own.url, {
        method: own.method,
        headers: webHeaders(own.incoming.rawHeaders),
        signal: own.signal,
        ...(!["GET", "HEAD"].includes(own.method) && streamOf(own.incoming)),
      });
      return own.#web;
    });
  }
}

function streamOf(incoming: IncomingMessage): RequestInit {
  return { body: Readable.toWeb(incoming) as ReadableStream<Uint8Array>, duplex: "half" } as RequestInit; // Node's own types
}

/** The headers of Node's request, which has them in an object already. */
class ServedHeaders {
  readonly #incoming: IncomingMessage;
  #web: Headers | undefined;

  constructor(incoming: IncomingMessage) {
    this.#incoming = incoming;
  }

  get(name: string): string | null {
    if (this.#web) return this.#web.get(name);
    const key = name.toLowerCase();
    // Node drops the repeats of some headers. A web request has all of them, and then they are no valid token or type.
    if (single.has(key)) return this.#joined(key);
    const value = this.#incoming.headers[key];
    return value === undefined ? null : Array.isArray(value) ? value.join(", ") : value;
  }

  has(name: string): boolean {
    return this.get(name) !== null;
  }

  #joined(key: string): string | null {
    const { rawHeaders } = this.#incoming;
    let value: string | null = null;
    for (let at = 0; at < rawHeaders.length; at += 2) {
      const name = rawHeaders[at] ?? "";
      if (name.length !== key.length || name.toLowerCase() !== key) continue;
      value = value === null ? (rawHeaders[at + 1] ?? "") : `${value}, ${rawHeaders[at + 1]}`;
    }
    return value;
  }

  static {
    standIn(ServedHeaders, Headers, (own) => {
      own.#web ??= webHeaders(own.#incoming.rawHeaders);
      return own.#web;
    });
  }
}

/** headers of which Node keeps the first only, and that the API reads */
const single = new Set(["authorization", "content-type", "content-length", "user-agent", "host"]);

function asHeaders(headers: ServedHeaders): Headers {
  return headers as ServedHeaders & Headers; // standIn() has added what is missing
}

function webHeaders(raw: readonly string[]): Headers {
  const headers = new Headers();
  for (let at = 0; at < raw.length; at += 2) headers.append(raw[at] ?? "", raw[at + 1] ?? "");
  return headers;
}
