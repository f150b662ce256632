/**
 * Requests to the daemon, for the typed client. `fetch`, and also node:http, load a whole HTTP client, which takes as long
 * as all else that a short command does. So the first request to a daemon on this host goes over a plain socket: most
 * commands send no other. Further ones, those to other hosts and those with a stream go over node:http.
 */

import type { Answer, SentRequest, Transport } from "../../client/client.ts";

type Exchange = SentRequest & { body?: string };

export function nodeTransport(): Transport<Answer> {
  let isFirst = true;
  let others: Promise<Transport<Answer>> | undefined;
  return async (address, request) => {
    if (isFirst && isHere(address) && isText(request)) {
      isFirst = false;
      return exchange(address, request);
    }
    others ??= import("./http-transport.ts").then(({ httpTransport }) => httpTransport());
    return (await others)(address, request);
  };
}

/** whether the answer can only come from a program on this host, and not from a proxy */
function isHere({ protocol, hostname }: URL): boolean {
  return protocol === "http:" && /^(127\.[\d.]+|\[::1\]|localhost)$/.test(hostname);
}

function isText(request: SentRequest): request is Exchange {
  return request.body === undefined || typeof request.body === "string";
}

/** one request of HTTP/1.1 on a connection of its own */
async function exchange(address: URL, { method, headers, body = "", signal }: Exchange): Promise<Answer> {
  signal?.throwIfAborted();
  const { host, hostname, port, pathname, search } = address;
  const fields = { ...headers, host, connection: "close", "content-length": String(Buffer.byteLength(body)) };
  const head = Object.entries(fields).map(([name, value]) => `${name}: ${plainValue(name, value)}\r\n`);
  const socket = process.getBuiltinModule("node:net").connect({
    host: hostname.replace(/^\[|\]$/g, ""),
    port: Number(port || 80),
    noDelay: true,
    keepAlive: true,
  });
  const abort = () => void socket.destroy(signal?.reason);
  signal?.addEventListener("abort", abort);
  socket.write(`${method} ${pathname}${search} HTTP/1.1\r\n${head.join("")}\r\n${body}`);
  return answerIn(new IncomingBytes(socket), (isComplete) => {
    signal?.removeEventListener("abort", abort);
    // The daemon closes it. To do so here takes 2 ms, as Node's own code opens stderr for it.
    if (isComplete) socket.unref();
    else socket.destroy();
  });
}

/** a value that stays in its line */
function plainValue(name: string, value: string): string {
  if (/^[\t\x20-\x7e]*$/.test(value)) return value;
  throw new TypeError(`Cannot send the header "${name}": it has characters other than those of ASCII`);
}

/** `end` is called when the answer has been read or is not read further */
async function answerIn(bytes: IncomingBytes, end: (isComplete: boolean) => void): Promise<Answer> {
  try {
    let status = 0;
    let headers = new Map<string, string>();
    // Those below 200 come before the answer itself.
    while (status < 200) {
      status = numberIn(/(?<=^HTTP\/1\.[01] )\d{3}(?= |$)/, await bytes.line(), 10);
      headers = await headersIn(bytes);
    }
    const body = bodyOf(bytes, status, headers, end);
    return {
      ok: status < 300,
      status,
      headers: { get: (name) => headers.get(name.toLowerCase()) ?? null },
      body,
      text: () => textOf(body),
    };
  } catch (error) {
    end(false);
    throw error;
  }
}

/** node:stream/consumers has the same, and takes longer to load than a short answer to read */
export async function textOf(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

async function headersIn(bytes: IncomingBytes): Promise<Map<string, string>> {
  const headers = new Map<string, string>();
  for (let line = await bytes.line(); line !== ""; line = await bytes.line()) {
    const colon = line.indexOf(":");
    if (colon < 1 || headers.size === mostHeaders) throw malformed();
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  return headers;
}

async function* bodyOf(
  bytes: IncomingBytes,
  status: number,
  headers: Map<string, string>,
  end: (isComplete: boolean) => void,
): AsyncGenerator<Buffer> {
  const [encoding, length] = [headers.get("transfer-encoding"), headers.get("content-length")];
  let isComplete = false;
  try {
    if (status === 204 || status === 304) yield* [];
    else if (encoding !== undefined) yield* chunksIn(bytes, encoding);
    else if (length !== undefined) yield* bytes.next(numberIn(/^\d{1,15}$/, length, 10));
    else yield* bytes.all();
    isComplete = true;
  } finally {
    end(isComplete);
  }
}

async function* chunksIn(bytes: IncomingBytes, encoding: string): AsyncGenerator<Buffer> {
  if (encoding.toLowerCase() !== "chunked") throw malformed();
  const size = async () => numberIn(/^[\da-f]{1,12}(?=\s*(?:;|$))/i, await bytes.line(), 16);
  for (let left = await size(); left > 0; left = await size()) {
    yield* bytes.next(left);
    if ((await bytes.line()) !== "") throw malformed();
  }
  await headersIn(bytes);
}

function numberIn(form: RegExp, text: string, base: number): number {
  const [digits] = form.exec(text) ?? [];
  if (digits === undefined) throw malformed();
  return Number.parseInt(digits, base);
}

const mostHeaders = 200;

/** bytes */
const longestLine = 64 * 1024;

/** What a socket receives, by lines and by numbers of bytes. */
class IncomingBytes {
  readonly #source: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** without its end */
  async line(): Promise<string> {
    for (;;) {
      const end = this.#rest.indexOf("\r\n");
      if (end > longestLine || (end < 0 && this.#rest.length > longestLine)) throw malformed();
      if (end >= 0) {
        const line = this.#rest.toString("latin1", 0, end);
        this.#rest = this.#rest.subarray(end + 2);
        return line;
      }
      if (!(await this.#more())) throw brokenOff();
    }
  }

  /** this many bytes, as they come */
  async *next(count: number): AsyncGenerator<Buffer> {
    for (let left = count; left > 0; ) {
      if (this.#rest.length === 0 && !(await this.#more())) throw brokenOff();
      const part = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(part.length);
      left -= part.length;
      yield part;
    }
  }

  /** up to the end */
  async *all(): AsyncGenerator<Buffer> {
    do {
      if (this.#rest.length > 0) yield this.#rest;
      this.#rest = Buffer.alloc(0);
    } while (await this.#more());
  }

  async #more(): Promise<boolean> {
    const { done, value } = await this.#source.next();
    if (done) return false;
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value]);
    return true;
  }
}

function brokenOff(): Error {
  return Object.assign(new Error("The connection ended before the answer did"), { code: "ECONNRESET" });
}

function malformed(): Error {
  return Object.assign(new Error("The answer is not HTTP"), { code: "EPROTO" });
}
