/**
 * HTTP functions that every dialect shares: reading bounded input, and writing JSON, lines and bytes. Nothing here
 * knows a vendor's wording: invalid input is thrown as an error, which each dialect words in its own way.
 */

import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import type { Readable } from "node:stream";
import type { Context } from "hono";
import type { z } from "zod";
import { SandkeepError } from "../../core/model/errors.ts";
import { bytesOf } from "../../core/network/cidr.ts";
import { Answer } from "./answer.ts";
import { ServedRequest } from "./connection/served-request.ts";

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
  const excess = excessOf(text);
  if (excess) throw new SandkeepError("invalid", `Invalid request: the JSON ${excess}.`);
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
/** most values in JSON: to check each of the 400,000 that fit into a body would hold up the daemon for seconds */
const mostValues = 20_000;

/** what is too much in JSON, outside of its strings; undefined if nothing is */
export function excessOf(text: string): string | undefined {
  if (text.length < deepest) return undefined;
  let depth = 0;
  let values = 1;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i);
    if (char === quote) quoted = !quoted;
    else if (quoted && char === backslash) i++;
    else if (!quoted && isOpening(char)) depth++;
    else if (!quoted && isClosing(char)) depth--;
    else if (!quoted && char === comma) values++;
    if (depth > deepest) return `is nested more than ${deepest} levels deep`;
    if (values > mostValues) return `has more than ${mostValues} values`;
  }
  return undefined;
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
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
  const source = ServedRequest.from(request)?.incoming;
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

/** stores that the request ends when its caller's key does */
export function abortWhenEnded(request: Request, ended: AbortSignal | undefined): void {
  const served = ServedRequest.from(request);
  if (served) served.keyEnd = ended;
}

/**
 * The address that a request comes from, or "" without a connection. An IPv6 address is reduced to its network, since
 * one host can use any address in it.
 */
export function addressOf(request: Request): string {
  const { socket } = ServedRequest.from(request)?.incoming ?? {};
  const address = addressBehind(socket?.remoteAddress, request.headers.get("x-forwarded-for") ?? undefined);
  return address.includes(":") && isIP(address) === 6 ? networkOf(address) : address;
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
  const peer = withoutMapping(remote);
  if (forwardedFor === "") return peer;
  const isHere = peer === "::1" || peer.startsWith("127.");
  const forwarded = isHere ? forwardedFor.split(",").at(-1)?.trim() : undefined;
  return forwarded && isIP(forwarded) !== 0 ? withoutMapping(forwarded) : peer;
}

/** an IPv4 address, also if it is written as an IPv6 address */
function withoutMapping(address: string): string {
  return address.startsWith("::ffff:") ? address.slice("::ffff:".length) : address;
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
  return ServedRequest.from(request) !== undefined || request.body !== null;
}

/** the request's body as it arrives; throws if the client disconnects */
export async function* bodyBytes(request: Request): AsyncGenerator<Uint8Array> {
  const source = ServedRequest.from(request)?.incoming;
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
  return Answer.of(JSON.stringify(value), status, { "content-type": "application/json; charset=utf-8", ...headers });
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
  outgoing?: { destroy(): unknown };
}

/** adds headers, except those that the answer has itself; names are in lower case */
export function addHeaders(response: Response, headers: Record<string, string>): void {
  const answer = Answer.from(response);
  answer?.addMissing(headers);
  if (answer) return;
  for (const [name, value] of Object.entries(headers)) {
    if (!response.headers.has(name)) response.headers.set(name, value);
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
