/**
 * An answer that Node's server sends without a web stream: a text, bytes or pieces that come one after the other. To
 * routes, routers and tests it is a web Response like any other.
 */

import { type LivePieces, liveBody } from "./live-body.ts";
import { standIn } from "./web-stand-in.ts";

export type Complete = string | Uint8Array<ArrayBuffer> | null;
export type Content = Complete | LivePieces;

export function isLive(content: Content): content is LivePieces {
  return content !== null && typeof content === "object" && "pieces" in content;
}

export class Answer {
  readonly status: number;
  readonly content: Content;
  /** by name in lower case, unless `#headers` exists */
  readonly #head: Record<string, string>;
  #headers: Headers | undefined;
  #web: Response | undefined;

  private constructor(content: Content, status: number, head: Record<string, string>) {
    this.status = status;
    this.content = content;
    this.#head = head;
  }

  /** names of headers are in lower case */
  static of(content: Content, status = 200, headers: Record<string, string> = {}): Response {
    return new Answer(content, status, { ...headers }) as Answer & Response; // standIn() below adds what is missing
  }

  /** the one behind a web Response; undefined if that was made in another way, or its body was read */
  static from(response: Response): Answer | undefined {
    return response instanceof Answer && !response.#web ? response : undefined;
  }

  get headers(): Headers {
    this.#headers ??= new Headers(this.#head);
    return this.#headers;
  }

  /** adds headers, except those that it has itself; names are in lower case */
  addMissing(headers: Record<string, string>): void {
    for (const name in headers) {
      const value = headers[name];
      if (value === undefined) continue;
      if (this.#headers?.has(name) ?? name in this.#head) continue;
      if (this.#headers) this.#headers.set(name, value);
      else this.#head[name] = value;
    }
  }

  /** the headers, for Node's writeHead(); the caller may add to them */
  head(): Record<string, string | string[]> {
    return this.#headers ? headOf(this.#headers) : this.#head;
  }

  static {
    standIn(Answer, Response, (own) => {
      const { content, status, headers } = own;
      own.#web ??= new Response(isLive(content) ? liveBody(content) : content, { status, headers });
      return own.#web;
    });
  }
}

/** the headers of a web Response, as Node's writeHead() takes them */
export function headOf(headers: Headers): Record<string, string | string[]> {
  const head: Record<string, string | string[]> = Object.fromEntries(headers);
  const cookies = headers.getSetCookie();
  if (cookies.length > 0) head["set-cookie"] = cookies;
  return head;
}
