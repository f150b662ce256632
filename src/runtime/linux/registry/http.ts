/**
 * One HTTP request to a registry or to its redirect. The server is not trusted: addresses that are not public are
 * refused unless they are allowed, a stalled or very slow answer is aborted, and an answer may not be longer than
 * requested.
 */

import { type IncomingMessage, request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import { connect, isIP, type LookupFunction, type Socket } from "node:net";
import { connect as connectSecurely } from "node:tls";
import { codeOf } from "../../../base/error-code.ts";
import { guardedLookup } from "../../../base/guarded-lookup.ts";
import { messageOf, SandkeepError } from "../../../core/model/errors.ts";
import { isPublic } from "../../../core/network/special-ranges.ts";

export interface RegistryRequest {
  url: URL;
  headers?: Record<string, string>;
  /** whether the host may have an address that is not public */
  mayBePrivate: boolean;
  /** certificates to trust; default those that Node knows */
  roots?: string[] | undefined;
  patience: Patience;
  /** whether the answer is read by `pour` */
  isLarge?: boolean;
  signal?: AbortSignal | undefined;
}

/** How long to wait for a registry. */
export interface Patience {
  /** most ms without a single byte */
  idle: number;
  /** ms in which at least `least` bytes must arrive */
  window: number;
  least: number;
}

export interface RegistryAnswer {
  status: number;
  headers: IncomingMessage["headers"];
  /** complete when it ends; throws when it is cut short, stalls, is too slow or is aborted */
  body: AsyncIterable<Buffer>;
  /**
   * the same for a large answer, through one buffer: no piece, of at most `pieceLength` bytes, is valid after `take` has
   * returned. After pieces were taken `ready` is called, and nothing is read until its promise resolves
   */
  pour(take: (piece: Buffer) => void, ready: () => Promise<void> | undefined): Promise<void>;
  /** closes an answer that will not be read */
  discard(): void;
}

export const pieceLength = 256 << 10;

export function ask(request: RegistryRequest): Promise<RegistryAnswer> {
  const { url, headers = {}, mayBePrivate, roots, patience, isLarge = false, signal } = request;
  const why = unreachable(url, mayBePrivate);
  if (why) return Promise.reject(why);
  const isSecure = url.protocol === "https:";
  // Refuses a name that resolves to an address that is not public, at the moment of the connection.
  const lookup = guardedLookup((host, address) => refusalOf(host, address, mayBePrivate));
  const trust = isSecure && roots ? { ca: roots } : {};
  const inlet = isLarge ? new Inlet() : undefined;
  return new Promise((resolve, reject) => {
    const asked = (isSecure ? secureRequest : plainRequest)(url, {
      headers: { "user-agent": "sandkeep", "accept-encoding": "identity", ...headers },
      lookup,
      // A connection of its own: one that is kept may lead to an address that this request must not reach.
      ...(inlet ? { createConnection: () => inlet.connect(url, { lookup, ...trust }) } : { agent: false }),
      ...(signal && { signal }),
      ...trust,
    });
    const failed = (cause: Error) => reject(failure(url, cause, signal));
    asked.setTimeout(patience.idle, () => asked.destroy(stalled(url, patience.idle)));
    asked.once("error", failed);
    asked.once("response", (response) => {
      asked.off("error", failed);
      // Later errors are errors of the answer's body.
      asked.on("error", () => undefined);
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        body: bodyOf(url, response, patience, signal),
        pour: (take, ready) => {
          const poured = inlet ? inlet.pour(url, response, patience, take, ready) : notLarge();
          return poured.catch((error) => Promise.reject(failure(url, error, signal)));
        },
        discard: () => void response.destroy(),
      });
    });
    asked.end();
  });
}

/**
 * The connection of a large answer. Node makes a buffer of 64 KiB for each piece that arrives, and to collect those takes
 * longer than to receive them. So what arrives goes to Node's HTTP in one buffer, if the answer passes it on at once.
 */
class Inlet {
  readonly #buffer = Buffer.allocUnsafeSlow(pieceLength);
  /** the answer, once it is poured */
  #response: IncomingMessage | undefined;
  #ready: () => Promise<void> | undefined = () => undefined;
  #isWaiting = false;

  connect(url: URL, options: { lookup: LookupFunction; ca?: string[] }): Socket {
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const isSecure = url.protocol === "https:";
    const port = Number(url.port) || (isSecure ? 443 : 80);
    const onread = { buffer: this.#buffer, callback: (length: number) => this.#take(socket, length) };
    const at = { host, port, ...options, onread };
    const name = isIP(host) ? {} : { servername: host };
    const socket: Socket = isSecure ? connectSecurely({ ...at, ...name, ALPNProtocols: ["http/1.1"] }) : connect(at);
    const resume = socket.resume.bind(socket);
    // Node's HTTP resumes the connection whenever it has nothing left, also while we wait.
    socket.resume = () => (this.#isWaiting ? socket : resume());
    return socket;
  }

  pour(
    url: URL,
    response: IncomingMessage,
    { window, least }: Patience,
    take: (piece: Buffer) => void,
    ready: () => Promise<void> | undefined,
  ): Promise<void> {
    let since = 0;
    const watch = setInterval(() => {
      // A connection that waits for us is not too slow.
      if (since < least && !this.#isWaiting) response.destroy(tooSlow(url, window));
      since = 0;
    }, window);
    const done = new Promise<void>((resolve, reject) => {
      response.on("data", (piece: Buffer) => {
        since += piece.length;
        try {
          take(piece);
        } catch (error) {
          reject(error);
          response.destroy();
        }
      });
      response.once("end", () => (response.complete ? resolve() : reject(tooEarly())));
      response.once("error", reject);
      response.once("close", () => reject(tooEarly()));
    });
    this.#response = response;
    this.#ready = ready;
    return done.finally(() => {
      clearInterval(watch);
      response.destroy();
    });
  }

  #take(socket: Socket, length: number): boolean {
    const piece = this.#buffer.subarray(0, length);
    const response = this.#response;
    const isPassedOn = response?.readableFlowing === true && response.readableLength === 0;
    socket.emit("data", isPassedOn ? piece : Buffer.from(piece));
    if (!response) return true;
    if (isPassedOn && response.readableLength > 0) {
      response.destroy(new SandkeepError("internal", "Cannot pull the image: what arrived was not passed on"));
    }
    const wait = this.#ready();
    if (!wait) return true;
    this.#isWaiting = true;
    wait.then(
      () => {
        this.#isWaiting = false;
        socket.resume();
      },
      (error) => void response.destroy(error),
    );
    return false;
  }
}

function notLarge(): Promise<void> {
  return Promise.reject(new SandkeepError("internal", "Cannot pour an answer that was not asked for as a large one"));
}

function tooEarly(): Error {
  return new Error("it ended too early");
}

/** the content of a short answer */
export async function readAll({ body, discard }: RegistryAnswer, most: number, what: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of body) {
      length += chunk.length;
      if (length > most)
        throw new SandkeepError("limit", `Cannot pull the image: ${what} is larger than ${most} bytes`);
      chunks.push(chunk);
    }
  } finally {
    discard();
  }
  return Buffer.concat(chunks);
}

async function* bodyOf(
  url: URL,
  response: IncomingMessage,
  { window, least }: Patience,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer> {
  let since = 0;
  const watch = setInterval(() => {
    // A connection that waits for our reader is not too slow.
    if (since < least && response.readableLength === 0) response.destroy(tooSlow(url, window));
    since = 0;
  }, window);
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      since += chunk.length;
      yield chunk;
    }
    if (!response.complete) throw tooEarly();
  } catch (error) {
    throw failure(url, error, signal);
  } finally {
    clearInterval(watch);
    response.destroy();
  }
}

function unreachable(url: URL, mayBePrivate: boolean): SandkeepError | undefined {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    return new SandkeepError("invalid", `Cannot reach "${url.host}": "${url.protocol}" is no way to a registry`);
  }
  // A host that is an address is connected to without a lookup.
  return isIP(host) ? refusalOf(url.host, host, mayBePrivate) : undefined;
}

function refusalOf(host: string, address: string, mayBePrivate: boolean): SandkeepError | undefined {
  if (mayBePrivate || isPublic(address)) return undefined;
  const hint = "SANDKEEP_REGISTRY_PRIVATE lists registries that may lead to such addresses";
  return new SandkeepError("forbidden", `Cannot reach "${host}": ${address} is not a public address (${hint})`);
}

function stalled(url: URL, idle: number): SandkeepError {
  return new SandkeepError("timeout", `Cannot reach "${url.host}": it sent nothing for ${idle / 1000} s`);
}

function tooSlow(url: URL, window: number): SandkeepError {
  return new SandkeepError(
    "timeout",
    `Cannot continue with "${url.host}": it sent almost nothing for ${window / 1000} s`,
  );
}

function failure(url: URL, cause: unknown, signal: AbortSignal | undefined): SandkeepError {
  if (cause instanceof SandkeepError) return cause;
  if (signal?.aborted && signal.reason instanceof SandkeepError) return signal.reason;
  const isUnknown = ["ENOTFOUND", "EAI_AGAIN"].includes(codeOf(cause) ?? "");
  const why = isUnknown ? "this host finds no address for it" : messageOf(cause);
  return new SandkeepError("unavailable", `Cannot reach "${url.host}": ${why}`, { cause });
}
