/**
 * Mechanics that every dialect shares: reading what came in, within bounds, and writing JSON, lines and bytes. Nothing
 * here knows a vendor's words; what cannot be understood is thrown and each dialect says so in its own.
 */

import { isIP } from "node:net";
import type { Readable } from "node:stream";
import type { Context } from "hono";
import type { z } from "zod";
import { within } from "../../base/waits.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import { bytesOf } from "../../core/network/cidr.ts";

/** What came in is not what the schema says. */
export class InvalidInput extends Error {
  override readonly name = "InvalidInput";
  readonly issues: readonly z.core.$ZodIssue[];

  constructor(issues: readonly z.core.$ZodIssue[]) {
    super("The request is not what it should be");
    this.issues = issues;
  }
}

/** a query's parameters; one that is there several times is a list */
export function queryParameters(c: Context): Record<string, unknown> {
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

/** nothing at all is an empty object: some clients send a content type and no body */
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
  // In UTF-8 neither can come but as an escape, which is rare enough to look closer then.
  if (/\\u(0000|d[89a-f])/i.test(text)) requireText(value);
  return value;
}

/** levels of objects and lists in JSON; what looks at every level by calling itself must not run out of stack */
const deepest = 200;

/** whether more brackets are open at once, strings left out */
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

/** no string inside may have NUL or half a character in it: neither a database nor a kernel takes those */
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
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of bodyBytes(request)) {
    length += chunk.length;
    if (length > longest)
      throw new SandkeepError("invalid", `Invalid request: the body is longer than ${longest} bytes.`);
    chunks.push(chunk);
  }
  try {
    return strictUtf8.decode(Buffer.concat(chunks));
  } catch {
    throw new SandkeepError("invalid", "Invalid request: the body is not UTF-8.");
  }
}

/** undoes what a request made when its client goes away before it is answered; never once it is */
export function undoIfGone({ signal }: Request, undo: () => Promise<unknown>, trouble: (error: unknown) => void): void {
  const undone = () => void undo().catch(trouble);
  if (signal.aborted) undone();
  else signal.addEventListener("abort", undone, { once: true });
}

const sources = new WeakMap<Request, Readable>();

/** says where a request's body comes from, for those who read it: a stream of the web in between costs 0.2 ms */
export function comesFrom(request: Request, incoming: Readable): void {
  sources.set(request, incoming);
}

const lives = new WeakMap<Request, AbortSignal>();

/** the request was let in by a key, and ends with it */
export function abortWhenEnded(request: Request, ended: AbortSignal | undefined): void {
  if (ended) lives.set(request, ended);
}

/** aborts when the key that let a request in is no longer good */
export function keyEndOf(request: Request): AbortSignal | undefined {
  return lives.get(request);
}

/**
 * the address that a request comes from; "" where there is no connection. A proxy on this host says whom it asks for; who
 * else is on this host can say so too, and has all of 127.0.0.0/8 to come from anyway. Of an IPv6 address the network
 * counts, since a host has as many addresses in it as it likes
 */
export function addressOf(request: Request): string {
  const source = sources.get(request) as { socket?: { remoteAddress?: string } } | undefined; // Node's, where it is one
  const peer = (source?.socket?.remoteAddress ?? "").replace(/^::ffff:/, "");
  const isHere = peer === "::1" || peer.startsWith("127.");
  const forwarded = isHere ? request.headers.get("x-forwarded-for")?.split(",").at(-1)?.trim() : undefined;
  const address = forwarded && isIP(forwarded) !== 0 ? forwarded.replace(/^::ffff:/, "") : peer;
  return isIP(address) === 6 ? networkOf(address) : address;
}

/** the first 64 bits, as text */
function networkOf(address: string): string {
  return (bytesOf(address) ?? [])
    .slice(0, 8)
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}

/** whether there is something to read, if only its end */
export function hasBody(request: Request): boolean {
  // To look at the body of a request that Node read the head of would begin to read it.
  return sources.has(request) || request.body !== null;
}

/** the request's body as it comes in; a client that went away ends it with an error */
export async function* bodyBytes(request: Request): AsyncGenerator<Uint8Array> {
  const source = sources.get(request);
  if (source) {
    try {
      // One that is not read to its end stays open, because the answer goes out on the same connection.
      yield* source.iterator({ destroyOnReturn: false });
    } catch (cause) {
      throw new SandkeepError("invalid", "Invalid request: the body ended too soon.", { cause });
    }
    return;
  }
  if (!request.body) return;
  const reader = request.body.getReader();
  let finished = false;
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((cause) => {
        throw new SandkeepError("invalid", "Invalid request: the body ended too soon.", { cause });
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

/** A body in pieces, and what is said while there is none, so that nobody on the way takes the stream for dead. */
export interface LivePieces {
  pieces: (signal: AbortSignal) => AsyncIterable<string | Uint8Array>;
  /** what readers of this format skip */
  filler: string | Uint8Array;
  /** longest silence, in ms */
  patience: number;
}

/**
 * A body that is written as its pieces come into being, never faster than it is read. When the client goes away the
 * signal aborts, and nothing else ends.
 */
export function liveBody({ pieces, filler, patience }: LivePieces): ReadableStream<Uint8Array> {
  const gone = new AbortController();
  const encoder = new TextEncoder();
  const encoded = (piece: string | Uint8Array) => (typeof piece === "string" ? encoder.encode(piece) : piece);
  const iterator = pieces(gone.signal)[Symbol.asyncIterator]();
  let next: Promise<IteratorResult<string | Uint8Array>> | undefined;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        next ??= iterator.next();
        const result = await within(next, patience);
        if (gone.signal.aborted) return;
        if (result === undefined) {
          controller.enqueue(encoded(filler));
          return;
        }
        next = undefined;
        if (result.done) controller.close();
        else controller.enqueue(encoded(result.value));
      },
      cancel() {
        gone.abort();
        // Both may wait for something that never comes; the signal tells them, nobody waits for them.
        next?.catch(() => undefined);
        void iterator.return?.()?.catch(() => undefined);
      },
    },
    new ByteLengthQueuingStrategy({ highWaterMark: 64 << 10 }),
  );
}

/**
 * JSON that is pure ASCII: some clients decode each chunk of a stream by itself, and break a character that lies across
 * two of them.
 */
export function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(/[\u0080-\uffff]/g, (char) => {
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** The connection that a request came on, where there is one: Node's server hands it along. */
export interface Connection {
  outgoing?: { destroy(): unknown };
}

export interface ByteBody {
  bytes: AsyncIterator<Uint8Array>;
  /** what has been looked at already */
  first?: IteratorResult<Uint8Array>;
  /** told when the bytes break off */
  trouble: (error: unknown) => void;
  connection?: Connection | undefined;
}

/**
 * Bytes as a body, read only as fast as they are sent. When they break off the connection is cut: ended in the usual
 * way, a part of a file would look like all of it.
 */
export function byteBody({ bytes, first, trouble, connection }: ByteBody): ReadableStream<Uint8Array> {
  let pending = first;
  let isCancelled = false;
  async function pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    try {
      const { done, value } = pending ?? (await bytes.next());
      pending = undefined;
      // A client that went away during the wait takes nothing more, and its stream is closed already.
      if (isCancelled) return;
      if (done) controller.close();
      else controller.enqueue(value);
    } catch (error) {
      if (isCancelled) return;
      trouble(error);
      if (!connection?.outgoing) throw error;
      connection.outgoing.destroy();
      controller.close();
    }
  }
  async function cancel(): Promise<void> {
    isCancelled = true;
    await bytes.return?.();
  }
  return new ReadableStream({ pull, cancel }, new ByteLengthQueuingStrategy({ highWaterMark: 128 << 10 }));
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });
