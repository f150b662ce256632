/**
 * The Connect protocol as E2B's clients speak it: JSON over HTTP, one message each way, or streams of messages.
 *
 *   unary     POST application/json; the message is the body, an error is a status and {"code","message"}
 *   stream    POST application/connect+json; both bodies are envelopes, and the status is always 200
 *
 *   envelope  u8 flags (1 compressed, 2 end of the stream), u32 length, big-endian, then so many bytes of JSON
 *
 * An answer's last envelope has flag 2 and {} or {"error":{"code","message"}}. Requests may be compressed with gzip.
 * Answers are not, because clients are mostly near and accept uncompressed answers.
 */

import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import type { z } from "zod";
import { eitherSignal } from "../../../base/concurrency/either-signal.ts";
import { isSandkeepError } from "../../../core/model/errors.ts";
import { Answer } from "../../kit/answer.ts";
import { bodyBytes, InvalidInput, json, jsonOf, parsed } from "../../kit/http.ts";
import { invalidWords } from "../../kit/issues.ts";
import { type ErrorTable, isForTheLog, Refusal, rowFor } from "../../kit/refusal.ts";

/** The Connect error codes that we use, and the HTTP status of each. */
const httpStatuses = {
  invalid_argument: 400,
  failed_precondition: 400,
  unauthenticated: 401,
  permission_denied: 403,
  not_found: 404,
  already_exists: 409,
  resource_exhausted: 429,
  unimplemented: 501,
  internal: 500,
  unavailable: 503,
  deadline_exceeded: 504,
} as const;

export type ConnectCode = keyof typeof httpStatuses;

/** An error with one of Connect's codes. */
export class ConnectError extends Error {
  override readonly name = "ConnectError";
  readonly code: ConnectCode;

  constructor(code: ConnectCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** longest message, in bytes: clients send standard input in one message, whatever its size */
export const longestMessage = 16 << 20;

const flag = { compressed: 1, end: 2 } as const;
const head = 5;
const unpack = promisify(gunzip);

/** Receives errors that are our own fault. */
interface Reporter {
  logError: (error: unknown) => void;
}

/** answers a call that has one message each way */
export async function unary<S extends z.ZodType>(
  request: Request,
  schema: S,
  { logError }: Reporter,
  answer: (message: z.output<S>) => Promise<object>,
): Promise<Response> {
  try {
    requireType(request, "application/json");
    const encoding = request.headers.get("content-encoding") ?? "identity";
    const bytes = await decoded(await whole(request), encoding, encoding !== "identity");
    return json(await answer(messageOf(bytes, schema)));
  } catch (error) {
    return errorAnswer(error, { logError });
  }
}

/** the answer to a call that failed before a stream began */
export function errorAnswer(error: unknown, { logError }: Reporter): Response {
  const { code, message } = connectErrorOf(error);
  const status = httpStatuses[code];
  if (isForTheLog(status) && code === "internal") logError(error);
  return json({ code, message }, status, status === 429 ? { "retry-after": "1" } : {});
}

export interface ServerStream<S extends z.ZodType> extends Reporter {
  schema: S;
  /** the message to send after `after` ms of silence */
  keepalive: { message: object; after: number };
  /** aborted when the daemon is stopping */
  ending?: AbortSignal | undefined;
  /** produces the messages, never faster than the client reads; the signal aborts when the client disconnects */
  messages: (message: z.output<S>, signal: AbortSignal) => AsyncIterable<object>;
}

/**
 * Answers a call of one message with any number of messages. It reads the message first: there are clients that send no
 * more of their request once the answer has begun.
 */
export async function serverStream<S extends z.ZodType>(request: Request, stream: ServerStream<S>): Promise<Response> {
  const { schema, keepalive, ending, messages, logError } = stream;
  const received = await settled(onlyMessage(request, schema));
  const answers = async function* (signal: AbortSignal) {
    yield* messages(resultOf(received), signal);
  };
  return streamAnswer(answers, { keepalive, ending, logError });
}

async function onlyMessage<S extends z.ZodType>(request: Request, schema: S): Promise<z.output<S>> {
  requireType(request, "application/connect+json");
  const sent = envelopes(request);
  const first = await sent.next();
  if (first.done) throw new ConnectError("invalid_argument", "Cannot answer: the request has no message");
  // Read the body to its end: otherwise the connection is cut instead of reused.
  const second = await sent.next();
  if (!second.done) throw new ConnectError("invalid_argument", "Cannot answer: the request has several messages");
  return messageOf(first.value, schema);
}

/** answers a call of any number of messages with one message, which is sent when all of them are read */
export async function clientStream<S extends z.ZodType>(
  request: Request,
  schema: S,
  { logError }: Reporter,
  answer: (messages: AsyncIterable<z.output<S>>) => Promise<object>,
): Promise<Response> {
  const received = async function* () {
    for await (const bytes of envelopes(request)) yield messageOf(bytes, schema);
  };
  const answerAll = async () => {
    requireType(request, "application/connect+json");
    return answer(received());
  };
  const answered = await settled(answerAll());
  const answers = async function* () {
    yield resultOf(answered);
  };
  return streamAnswer(answers, { keepalive: undefined, ending: undefined, logError });
}

type Settled<T> = { value: T } | { error: unknown };

/** so that an error can be sent as the end of a stream */
function settled<T>(promise: Promise<T>): Promise<Settled<T>> {
  return promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
}

function resultOf<T>(result: Settled<T>): T {
  if ("error" in result) throw result.error;
  return result.value;
}

interface StreamOptions extends Reporter {
  keepalive: { message: object; after: number } | undefined;
  ending: AbortSignal | undefined;
}

function streamAnswer(
  answers: (signal: AbortSignal) => AsyncIterable<object>,
  { keepalive, ending, logError }: StreamOptions,
): Response {
  async function* pieces(signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const either = eitherSignal(signal, ending);
    try {
      for await (const answer of answers(either.signal)) yield envelope(answer);
      if (ending?.aborted) throw new ConnectError("unavailable", "Cannot continue: the daemon is stopping");
      yield envelope({}, flag.end);
    } catch (error) {
      if (signal.aborted) return;
      const { code, message } = connectErrorOf(error);
      if (code === "internal") logError(error);
      yield envelope({ error: { code, message } }, flag.end);
    } finally {
      either.release();
    }
  }
  const filler = keepalive ? envelope(keepalive.message) : new Uint8Array();
  const headers = { "content-type": "application/connect+json", "cache-control": "no-store" };
  return Answer.of({ pieces, filler, patience: keepalive?.after ?? longestSilence }, 200, headers);
}

/** silence before a filler on a stream without keepalive, in ms: in effect, never */
const longestSilence = 2 ** 31 - 1;

export function envelope(message: object, flags = 0): Uint8Array {
  const text = Buffer.from(JSON.stringify(message));
  const bytes = Buffer.allocUnsafe(head + text.length);
  bytes.writeUInt8(flags, 0);
  bytes.writeUInt32BE(text.length, 1);
  text.copy(bytes, head);
  return bytes;
}

/** the messages in a request's envelopes, decompressed; a message that is too long is refused before it is read */
export async function* envelopes(request: Request): AsyncGenerator<Uint8Array> {
  const encoding = request.headers.get("connect-content-encoding") ?? "identity";
  let pending: Buffer[] = [];
  let length = 0;
  for await (const chunk of bodyBytes(request)) {
    pending.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    length += chunk.length;
    while (length >= head) {
      if ((pending[0]?.length ?? 0) < head) pending = [Buffer.concat(pending)];
      const start = pending[0] ?? Buffer.alloc(0);
      const flags = start.readUInt8(0);
      const size = start.readUInt32BE(1);
      if (size > longestMessage) throw tooLong();
      if (length < head + size) break;
      const all = pending.length === 1 && pending[0] ? pending[0] : Buffer.concat(pending);
      const message = all.subarray(head, head + size);
      pending = [all.subarray(head + size)];
      length -= head + size;
      if ((flags & flag.end) !== 0) return;
      yield await decoded(message, encoding, (flags & flag.compressed) !== 0);
    }
  }
  if (length > 0) throw new ConnectError("invalid_argument", "Cannot read the request: its last envelope is cut off");
}

async function whole(request: Request): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of bodyBytes(request)) {
    length += chunk.length;
    if (length > longestMessage) throw tooLong();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function decoded(bytes: Buffer, encoding: string, isCompressed: boolean): Promise<Buffer> {
  if (!isCompressed) return bytes;
  if (encoding !== "gzip") {
    throw new ConnectError(
      "unimplemented",
      `Cannot read the request: only gzip is known, not "${encoding.slice(0, 32)}"`,
    );
  }
  try {
    return await unpack(bytes, { maxOutputLength: longestMessage });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw tooLong();
    throw new ConnectError("invalid_argument", "Cannot read the request: it is not gzip", { cause });
  }
}

function messageOf<S extends z.ZodType>(bytes: Uint8Array, schema: S): z.output<S> {
  let text: string;
  try {
    text = strictUtf8.decode(bytes);
  } catch (cause) {
    throw new ConnectError("invalid_argument", "Cannot read the request: it is not UTF-8", { cause });
  }
  return parsed(schema, jsonOf(text));
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

/** refuses other codecs, such as binary protobuf, and names the supported one */
function requireType(request: Request, wanted: string): void {
  const type = (request.headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase();
  if (type === wanted) return;
  throw new ConnectError("unimplemented", `Cannot read the request: its type should be ${wanted}`);
}

function tooLong(): ConnectError {
  return new ConnectError(
    "resource_exhausted",
    `Cannot read the request: a message has more than ${longestMessage} bytes`,
  );
}

const codes: ErrorTable<ConnectCode> = {
  invalid: "invalid_argument",
  "invalid user": "unauthenticated",
  unauthenticated: "unauthenticated",
  forbidden: "permission_denied",
  "not-found": "not_found",
  exists: "already_exists",
  conflict: "failed_precondition",
  "conflict session": "unavailable",
  unsupported: "unimplemented",
  limit: "resource_exhausted",
  "no-room": "resource_exhausted",
  timeout: "deadline_exceeded",
  gone: "unavailable",
  unavailable: "unavailable",
  internal: "internal",
};

/** converts any thrown value to a Connect error */
export function connectErrorOf(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  if (error instanceof InvalidInput) return new ConnectError("invalid_argument", invalidWords(error.issues));
  if (error instanceof Refusal) return new ConnectError(codeOfStatus(error.status), error.message, { cause: error });
  const code = isSandkeepError(error) ? rowFor(codes, error) : "internal";
  const message = isSandkeepError(error) && code !== "internal" ? error.message : "An internal error occurred";
  return new ConnectError(code, message, { cause: error });
}

function codeOfStatus(status: number): ConnectCode {
  const [code = "internal"] = Object.entries(httpStatuses).find(([, own]) => own === status) ?? [];
  return code as ConnectCode; // a key of the table
}
