/**
 * HTTP functions that every dialect shares: reading bounded input, and writing JSON, lines and bytes. Nothing here
 * knows a vendor's wording: invalid input is thrown as an error, which each dialect words in its own way.
 */

import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import type { Readable } from "node:stream";
import type { Context } from "hono";
import type { z } from "zod";
import { within } from "../../base/concurrency/waits.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import { bytesOf } from "../../core/network/cidr.ts";

/** The input does not match the schema. */
export class InvalidInput extends Error {
  override readonly name = "InvalidInput";
  readonly issues: readonly z.core.$ZodIssue[];

  constructor(issues: readonly z.core.$ZodIssue[]) {
    super("The request is not what it should be");
    this.issues = issues;
  }
}

/** a query's parameters; one that occurs several times becomes a list */
export function queryParameters(c: Context): Record<string, unknown> {
  if (!c.req.url.includes("?")) return {};
  const all = Object.entries(c.req.queries()).map(([key, values]) => [key, values.length === 1 ? values[0] : values]);
  const query = Object.fromEntries(all);
  requireText(query);
  return query;
}

/** an HTML form's fields, each given once */
export async function form(c: Context, longest: number): Promise<Record<string, string>> {
  return Object.fromEntries(new URLSearchParams(await bodyText(c.req.raw, longest)));
}

export function parsed<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value);
  if (!result.success) throw new InvalidInput(result.error.issues);
  return result.data;
}

/** parses JSON; an empty text is an empty object, since some clients send a content type and no body */
export function jsonOf(text: string): unknown {
  if (text.trim() === "") return {};
  if (isDeeperThan(deepest, text)) {
    throw new SandkeepError("invalid", `Invalid request: the JSON is nested more than ${deepest} levels deep.`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new SandkeepError("invalid", "Invalid request: the body is not JSON.");
  }
  // In UTF-8 text, NUL and half characters occur only as escapes. Those are rare, so check only then.
  if (/\\u(0000|d[89a-f])/i.test(text)) requireText(value);
  return value;
}

/** most levels of objects and lists in JSON, so that recursive functions do not run out of stack */
const deepest = 200;

/** whether more than `levels` brackets are open at once, outside of strings */
function isDeeperThan(levels: number, text: string): boolean {
  if (text.length < levels) return false;
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i);
    if (char === quote) quoted = !quoted;
    else if (quoted && char === backslash) i++;
    else if (!quoted && isOpening(char)) depth++;
    else if (!quoted && isClosing(char)) depth--;
    if (depth > levels) return true;
  }
  return false;
}

const quote = 0x22;
const backslash = 0x5c;
/** [ and { differ in one bit, and so do ] and } */
const isOpening = (char: number) => (char | 0x20) === 0x7b;
const isClosing = (char: number) => (char | 0x20) === 0x7d;

/** refuses strings with a NUL or half a character in them: databases and kernels do not accept those */
export function requireText(value: unknown): void {
  if (typeof value === "string" && (value.includes("\0") || !value.isWellFormed())) {
    throw new SandkeepError("invalid", "Invalid request: a string has a NUL or half a character in it.");
  }
  if (typeof value !== "object" || value === null) return;
  for (const [key, member] of Object.entries(value)) {
    requireText(key);
    requireText(member);
  }
}

export async function bodyText(request: Request, longest: number): Promise<string> {
  const source = sources.get(request);
  const chunks = source ? await allOf(source, longest) : await piecesOf(bodyBytes(request), longest);
  const [first = Buffer.alloc(0), ...others] = chunks;
  try {
    return strictUtf8.decode(others.length === 0 ? first : Buffer.concat(chunks));
  } catch {
    throw new SandkeepError("invalid", "Invalid request: the body is not UTF-8.");
  }
}

async function piecesOf(body: AsyncIterable<Uint8Array>, longest: number): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > longest) throw tooLong(longest);
    chunks.push(chunk);
  }
  return chunks;
}

/** as piecesOf(): an iterator over Node's stream takes several times as long, and nearly every request has a short body */
function allOf(source: Readable, longest: number): Promise<Uint8Array[]> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array[]>();
  const chunks: Uint8Array[] = [];
  let length = 0;
  const add = (chunk: Uint8Array) => {
    length += chunk.length;
    chunks.push(chunk);
    if (length > longest) finish(tooLong(longest));
  };
  const end = () => finish();
  const fail = (cause?: unknown) => finish(endedTooSoon(cause));
  const finish = (error?: SandkeepError) => {
    source.off("data", add).off("end", end).off("error", fail).off("close", fail);
    // What is left stays unread, because the answer uses the same connection.
    if (error) source.pause();
    if (error) reject(error);
    else resolve(chunks);
  };
  if (source.readableEnded) return Promise.resolve([]);
  if (source.destroyed) return Promise.reject(endedTooSoon(source.errored));
  source.on("data", add).on("end", end).on("error", fail).on("close", fail);
  return promise;
}

function tooLong(longest: number): SandkeepError {
  return new SandkeepError("invalid", `Invalid request: the body is longer than ${longest} bytes.`);
}

function endedTooSoon(cause: unknown): SandkeepError {
  return new SandkeepError("invalid", "Invalid request: the body ended too soon.", { cause });
}

/** calls `undo` if the client disconnects before its request is answered */
export function undoIfGone(
  { signal }: Request,
  undo: () => Promise<unknown>,
  logError: (error: unknown) => void,
): void {
  const undone = () => void undo().catch(logError);
  if (signal.aborted) undone();
  else signal.addEventListener("abort", undone, { once: true });
}

const sources = new WeakMap<Request, Readable>();

/** stores the Node stream of a request's body, so that reading it needs no web stream, which costs 0.2 ms */
export function comesFrom(request: Request, incoming: Readable): void {
  sources.set(request, incoming);
}

const lives = new WeakMap<Request, AbortSignal>();

/** stores that the request ends when its caller's key does */
export function abortWhenEnded(request: Request, ended: AbortSignal | undefined): void {
  if (ended) lives.set(request, ended);
}

/** aborts when the key that authenticated the request is no longer valid */
export function keyEndOf(request: Request): AbortSignal | undefined {
  return lives.get(request);
}

/**
 * The address that a request comes from, or "" without a connection. An IPv6 address is reduced to its network, since
 * one host can use any address in it.
 */
export function addressOf(request: Request): string {
  const source = sources.get(request) as { socket?: { remoteAddress?: string } } | undefined; // Node's, if any
  const address = addressBehind(source?.socket?.remoteAddress, request.headers.get("x-forwarded-for") ?? undefined);
  return isIP(address) === 6 ? networkOf(address) : address;
}

/** the address that a request of Node's server comes from */
export function clientAddress({ socket, headers }: IncomingMessage): string {
  const forwarded = headers["x-forwarded-for"];
  return addressBehind(socket.remoteAddress, Array.isArray(forwarded) ? forwarded.join() : forwarded);
}

/**
 * The address of the client. Trusts x-forwarded-for only from this host, where a proxy may run. Other programs on this
 * host can forge it, but they already have all of 127.0.0.0/8 to choose from.
 */
function addressBehind(remote = "", forwardedFor = ""): string {
  const peer = remote.replace(/^::ffff:/, "");
  const isHere = peer === "::1" || peer.startsWith("127.");
  const forwarded = isHere ? forwardedFor.split(",").at(-1)?.trim() : undefined;
  return forwarded && isIP(forwarded) !== 0 ? forwarded.replace(/^::ffff:/, "") : peer;
}

/** the first 64 bits, as text */
function networkOf(address: string): string {
  return (bytesOf(address) ?? [])
    .slice(0, 8)
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}

/** whether there is a body to read, which may be empty */
export function hasBody(request: Request): boolean {
  // Accessing `body` of a request from Node's server would start reading it.
  return sources.has(request) || request.body !== null;
}

/** the request's body as it arrives; throws if the client disconnects */
export async function* bodyBytes(request: Request): AsyncGenerator<Uint8Array> {
  const source = sources.get(request);
  if (source) {
    try {
      // A body that is not read to its end stays open, because the answer uses the same connection.
      yield* source.iterator({ destroyOnReturn: false });
    } catch (cause) {
      throw endedTooSoon(cause);
    }
    return;
  }
  if (!request.body) return;
  const reader = request.body.getReader();
  let finished = false;
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((cause) => {
        throw endedTooSoon(cause);
      });
      finished = done;
      if (done) return;
      yield value;
    }
  } finally {
    if (!finished) void reader.cancel().catch(() => undefined);
  }
}

export function json(value: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(value), {
    status,
    headers: { "content-type": "application/json; charset=utf-8", ...headers },
  });
}

/** A body in pieces, and the filler to send between them, so that no proxy takes the stream for dead. */
export interface LivePieces {
  pieces: (signal: AbortSignal) => AsyncIterable<string | Uint8Array>;
  /** text or bytes that readers of this format skip */
  filler: string | Uint8Array;
  /** longest silence, in ms */
  patience: number;
}

/**
 * A body that is written as its pieces are produced, never faster than the client reads it. When the client
 * disconnects, the signal aborts, and nothing else ends.
 */
export function liveBody({ pieces, filler, patience }: LivePieces): ReadableStream<Uint8Array> {
  const gone = new AbortController();
  const encoder = new TextEncoder();
  const encoded = (piece: string | Uint8Array) => (typeof piece === "string" ? encoder.encode(piece) : piece);
  let iterator: AsyncIterator<string | Uint8Array> | undefined;
  let next: Promise<IteratorResult<string | Uint8Array>> | undefined;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        iterator ??= pieces(gone.signal)[Symbol.asyncIterator]();
        next ??= iterator.next();
        const result = await within(next, patience);
        if (gone.signal.aborted) return;
        if (result === undefined) {
          controller.enqueue(encoded(filler));
          return;
        }
        if (result.done) return controller.close();
        controller.enqueue(encoded(result.value));
        next = iterator.next();
      },
      cancel() {
        gone.abort();
        // Both may wait for something that never comes. The signal informs them, so we do not wait.
        next?.catch(() => undefined);
        void iterator?.return?.()?.catch(() => undefined);
      },
    },
    // Nothing begins before the body is read: the listener may send the pieces itself.
    new ByteLengthQueuingStrategy({ highWaterMark: 0 }),
  );
}

/**
 * JSON that is pure ASCII: some clients decode each chunk of a stream separately, and break a character that spans two
 * chunks.
 */
export function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(/[\u0080-\uffff]/g, (char) => {
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** The connection of a request, if there is one: Node's server passes it along. */
export interface Connection {
  outgoing?: { destroy(): unknown; setHeader?(name: string, value: string): unknown };
}

/**
 * Adds headers, except those that the answer has itself. Node's response takes them in less than half of the time of a
 * web Response, and lets the answer's own replace them.
 */
export function addHeaders(response: Response, headers: Record<string, string>, connection?: Connection): void {
  const outgoing = connection?.outgoing;
  for (const [name, value] of Object.entries(headers)) {
    if (outgoing?.setHeader) outgoing.setHeader(name, value);
    else if (!response.headers.has(name)) response.headers.set(name, value);
  }
}

export interface ByteBody {
  bytes: AsyncIterator<Uint8Array>;
  /** the result of a read that the caller has already made */
  first?: IteratorResult<Uint8Array>;
  /** called with the error when the bytes break off */
  logError: (error: unknown) => void;
  connection?: Connection | undefined;
  /** ms for which the client may take nothing before it is given up; default: any time */
  patience?: number;
}

/**
 * A body of bytes, read only as fast as they are sent. When the bytes break off, the connection is cut: after a normal
 * end, a part of a file would look complete.
 */
export function byteBody({ bytes, first, logError, connection, patience }: ByteBody): ReadableStream<Uint8Array> {
  let pending = first;
  let isCancelled = false;
  let idle: NodeJS.Timeout | undefined;
  function giveUp(controller: ReadableStreamDefaultController<Uint8Array>): void {
    isCancelled = true;
    connection?.outgoing?.destroy();
    controller.error(new Error("The client took nothing for too long"));
    bytes.return?.().catch(logError);
  }
  async function pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    clearTimeout(idle);
    try {
      const { done, value } = pending ?? (await bytes.next());
      pending = undefined;
      // If the client disconnected during the wait, its stream is already closed.
      if (isCancelled) return;
      if (done) controller.close();
      else {
        controller.enqueue(value);
        if (patience !== undefined) idle = setTimeout(giveUp, patience, controller).unref();
      }
    } catch (error) {
      if (isCancelled) return;
      logError(error);
      if (!connection?.outgoing) throw error;
      connection.outgoing.destroy();
      controller.close();
    }
  }
  async function cancel(): Promise<void> {
    isCancelled = true;
    clearTimeout(idle);
    await bytes.return?.();
  }
  return new ReadableStream({ pull, cancel }, new ByteLengthQueuingStrategy({ highWaterMark: 128 << 10 }));
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });
