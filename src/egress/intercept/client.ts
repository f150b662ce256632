/** What passing a request on needs of HTTP, whichever version of it a server speaks. */

import type { Readable, Writable } from "node:stream";
import type { Header } from "./headers.ts";

export interface Client {
  /** begins to send; the listener gets the results */
  send(request: Outgoing, listener: Listener): Sending;
  close(): void;
}

export interface Outgoing {
  method: string;
  scheme: "http" | "https";
  authority: string;
  /** path and query */
  target: string;
  /** end to end, without the host */
  headers: Header[];
  /** names, in lower case, of headers that must not be kept in a compression table */
  secret: string[];
  hasBody: boolean;
  /** whether the sender understands trailers */
  takesTrailers: boolean;
}

export interface Sending {
  body: Writable;
  /** the trailers, and the end of the body */
  end(trailers: Header[]): void;
  /** gives up, with a code of HTTP/2 */
  abort(code: number): void;
  /** gives up, and closes the connection to a server that would not stop sending otherwise */
  disconnect(): void;
}

export interface Listener {
  /** 1xx, but for a change of protocol */
  inform(status: number, headers: Header[]): void;
  answer(answer: Answer): void;
  /** there will be no answer; with the code of HTTP/2 where the server gave one */
  failed(error: Error, code?: number): void;
}

export interface Answer {
  status: number;
  /** the words beside it, where the version of HTTP has them */
  reason: string;
  /** all of them, also those about the connection */
  headers: Header[];
  /** ends whole, or with an error */
  body: Readable;
  /** once the body has ended */
  trailers(): Header[];
  /** the code of HTTP/2 that cut it off */
  code(): number;
}
