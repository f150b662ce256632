/**
 * Transfers of files over plain HTTP. GET /files reads a file, with ranges and gzip. POST /files writes one file from
 * the plain body, or many from a form. POST /files/compose joins several files into one. All bytes are streamed.
 */

import { posix } from "node:path";
import { pipeline, type Readable } from "node:stream";
import { createGunzip, createGzip } from "node:zlib";
import { z } from "zod";
import type { Place } from "../../../core/files/user-files.ts";
import { isSandkeepError, messageOf, SandkeepError } from "../../../core/model/errors.ts";
import type { FileInfo } from "../../../core/ports/runtime.ts";
import { type ByteRange, byteRange } from "../../kit/byte-ranges.ts";
import { bodyBytes, bodyText, byteBody, type Connection, json, jsonOf, parsed, requireText } from "../../kit/http.ts";
import { Refusal } from "../../kit/refusal.ts";
import type { Dialect } from "../request.ts";
import { type EnvdCall, requireUserName } from "./call.ts";
import { contentTypeOf } from "./content-types.ts";
import { type Metadata, metadataOf, metadataPrefix } from "./file-metadata.ts";
import { boundaryOf, type Part, partsOf } from "./multipart.ts";

/** most files in one form */
const mostFiles = 10_000;

export async function download(
  { core }: Dialect,
  call: EnvdCall,
  connection: Connection | undefined,
): Promise<Response> {
  const { owner, session, request } = call;
  const { file, bytes } = await inWords(core.userFiles.read(owner, session.id, placeOf(call)));
  const headers = headersOf(file);
  if (isUnchanged(request.headers, file)) return new Response(null, { status: 304, headers });
  const range = isSameFile(request.headers, file) ? byteRange(request.headers.get("range"), file.size) : undefined;
  if (range === "unsatisfiable") {
    const message = `Cannot read "${file.path}": it has ${file.size} bytes, and none where they are asked for`;
    return json({ code: 416, message }, 416, { "content-range": `bytes */${file.size}` });
  }
  const coding = codingOf(request.headers.get("accept-encoding"));
  if (coding === undefined) throw new Refusal(406, "Cannot send the file: only gzip and identity are known");
  if (request.method === "HEAD")
    return new Response(null, { headers: { ...headers, "content-length": `${file.size}` } });
  if (range) return partOf(bytes({ offset: range.from, length: range.to - range.from }), range);
  if (coding === "gzip") {
    // pipeline() ends each side with the other's error, which the reader of the result gets.
    const packed = pipeline(bytes(), createGzip({ level: 1 }), () => undefined);
    return new Response(body(packed), { headers: { ...headers, "content-encoding": "gzip" } });
  }
  // Files of the kernel, as in /proc, report a size of 0 and still have content.
  if (file.size === 0) return unsized(bytes());
  return new Response(body(bytes({ offset: 0, length: file.size }), file.size), {
    headers: { ...headers, "content-length": `${file.size}` },
  });

  function partOf(source: Readable, { from, to }: ByteRange): Response {
    const told = { "content-range": `bytes ${from}-${to - 1}/${file.size}`, "content-length": `${to - from}` };
    return new Response(body(source, to - from), { status: 206, headers: { ...headers, ...told } });
  }

  async function unsized(source: Readable): Promise<Response> {
    const iterator = source.iterator({ destroyOnReturn: true });
    const first = await inWords(iterator.next());
    if (first.done) return new Response(null, { headers: { ...headers, "content-length": "0" } });
    return new Response(byteBody({ bytes: iterator, first, logError: ignored, connection }), { headers });
  }

  /** cuts the connection if the file shrinks meanwhile, so that a part does not look complete */
  function body(source: Readable, length?: number): ReadableStream<Uint8Array> {
    const iterator = counted(source, length)[Symbol.asyncIterator]();
    return byteBody({ bytes: iterator, logError: ignored, connection });
  }
}

/** a sandbox's changes to its own files do not belong in the daemon's log */
function ignored(): void {}

async function* counted(source: Readable, length: number | undefined): AsyncGenerator<Uint8Array> {
  let count = 0;
  for await (const chunk of source) {
    count += chunk.length;
    yield chunk;
  }
  if (length !== undefined && count < length) throw new SandkeepError("conflict", "The file was cut while it was read");
}

export async function upload(dialect: Dialect, call: EnvdCall): Promise<Response> {
  const { request } = call;
  const type = (request.headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase();
  // Checked before anything is read.
  const metadata = metadataOf(request);
  const bytes = unpacked(request);
  if (type === "multipart/form-data") return json(await uploadForm(dialect, call, metadata, bytes));
  if (type !== "application/octet-stream") {
    throw new Refusal(400, "Cannot write: the content type should be multipart/form-data or application/octet-stream");
  }
  const place = placeOf(call);
  if (place.path === "") throw new Refusal(400, "Cannot write: the address has no path");
  return json([await put(dialect, call, { ...place, metadata }, bytes)]);
}

async function uploadForm(
  dialect: Dialect,
  call: EnvdCall,
  metadata: Metadata,
  bytes: AsyncIterable<Uint8Array>,
): Promise<object[]> {
  const boundary = boundaryOf(call.request.headers.get("content-type"));
  if (boundary === undefined) throw new Refusal(400, "Cannot read the form: its content type names no boundary");
  const written: WrittenFile[] = [];
  for await (const part of partsOf(bytes, boundary)) {
    if (part.name !== "file") continue;
    if (written.length >= mostFiles) throw new Refusal(400, `Cannot write more than ${mostFiles} files at once`);
    const place = await targetOf(dialect, call, part);
    if (written.some(({ path }) => path === place.path)) {
      throw new Refusal(400, `Cannot write "${place.path}" twice with one form`);
    }
    written.push(await put(dialect, call, { ...place, metadata }, part.bytes));
  }
  if (written.length === 0) throw new Refusal(400, "Cannot write: the form has no file");
  return written;
}

/** the path in the URL takes precedence over the file's name */
async function targetOf({ core }: Dialect, call: EnvdCall, { filename = "" }: Part): Promise<Place> {
  const { path, user } = placeOf(call);
  const wanted = path || filename;
  if (wanted === "") throw new Refusal(400, "Cannot write: a file of the form has no name");
  requireText(wanted);
  return { path: await inWords(core.userFiles.absolute(call.owner, call.session.id, { path: wanted, user })), user };
}

interface WrittenFile {
  path: string;
  name: string;
  type: "file";
  metadata?: Metadata;
}

async function put(
  { core }: Dialect,
  { owner, session }: EnvdCall,
  { metadata, ...place }: Place & { metadata: Metadata },
  bytes: AsyncIterable<Uint8Array>,
): Promise<WrittenFile> {
  const attributes = { prefix: metadataPrefix, values: metadata };
  const path = await inWords(core.userFiles.write(owner, session.id, place, bytes, { attributes }));
  return { path, name: posix.basename(path), type: "file", ...(Object.keys(metadata).length > 0 && { metadata }) };
}

const composeBody = z.object({
  source_paths: z.array(z.string().min(1).max(4096)).min(1).max(1000),
  destination: z.string().min(1).max(4096),
  username: z.string().min(1).max(64).optional(),
});

export async function compose({ core, limits }: Dialect, call: EnvdCall): Promise<Response> {
  const body = parsed(composeBody, jsonOf(await bodyText(call.request, limits.body)));
  if (body.username !== undefined) requireUser(body.username);
  const place = { path: body.destination, user: body.username ?? call.user };
  const { path, name } = await inWords(core.userFiles.join(call.owner, call.session.id, body.source_paths, place));
  return json({ path, name, type: "file" });
}

/** the file and the user that the URL names */
function placeOf({ request, user }: EnvdCall): Place {
  const { searchParams } = new URL(request.url);
  const path = searchParams.get("path") ?? "";
  requireText(path);
  if (Buffer.byteLength(path) > 4095) throw new Refusal(400, "Cannot use the path: it is too long");
  const name = searchParams.get("username") || user;
  if (name !== undefined) requireUser(name);
  return { path, user: name };
}

/** here errors have a number as their code, unlike in the services */
function requireUser(name: string): void {
  try {
    requireUserName(name);
  } catch (cause) {
    throw new Refusal(401, messageOf(cause), { cause });
  }
}

/** the decompressed body */
function unpacked(request: Request): AsyncIterable<Uint8Array> {
  const encoding = (request.headers.get("content-encoding") ?? "identity").toLowerCase();
  if (encoding === "identity") return bodyBytes(request);
  if (encoding !== "gzip") throw new Refusal(400, "Cannot write: only gzip is known as a content encoding");
  return gunzipped(bodyBytes(request));
}

async function* gunzipped(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* pipeline(bytes, createGunzip(), () => undefined);
  } catch (error) {
    if (isSandkeepError(error)) throw error;
    // Leave out the cause: its errno is one that the kernel uses for a broken disk.
    throw new SandkeepError("invalid", "Cannot write: the body is not gzip");
  }
}

/** maps errors of files to this wire's statuses */
async function inWords<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (isSandkeepError(error, "invalid", "user")) throw new Refusal(401, error.message, { cause: error });
    if (isSandkeepError(error, "limit")) throw new Refusal(507, error.message, { cause: error });
    // A sandbox that pauses or ends meanwhile is answered as one that does not run.
    if (isSandkeepError(error, "conflict", "session")) throw error;
    if (isSandkeepError(error, "conflict")) throw new Refusal(400, error.message, { cause: error });
    throw error;
  }
}

/**
 * A file from a sandbox may be an HTML page, and with one address for all sandboxes it comes from the daemon's own
 * origin. The `sandbox` policy makes browsers treat it as a page without an origin.
 */
function headersOf(file: FileInfo): Record<string, string> {
  const name = file.name.replace(/[^\x20-\x7e]|["\\]/g, "_");
  return {
    "accept-ranges": "bytes",
    "content-disposition": `inline; filename="${name}"; filename*=UTF-8''${encodeURIComponent(file.name.toWellFormed())}`,
    "content-security-policy": "sandbox",
    "content-type": contentTypeOf(file.name),
    "last-modified": new Date(file.modifiedAt).toUTCString(),
    vary: "Accept-Encoding",
    "x-content-type-options": "nosniff",
  };
}

function isUnchanged(headers: Headers, { modifiedAt }: FileInfo): boolean {
  const since = Date.parse(headers.get("if-modified-since") ?? "");
  return !Number.isNaN(since) && Math.floor(modifiedAt / 1000) * 1000 <= since;
}

/** whether the file is unchanged since the client got a part of it */
function isSameFile(headers: Headers, { modifiedAt }: FileInfo): boolean {
  const known = headers.get("if-range");
  return known === null || Date.parse(known) === Math.floor(modifiedAt / 1000) * 1000;
}

/**
 * gzip only for clients that want nothing else. Every Node client accepts gzip, but compressing would be slower than
 * sending. Undefined if a client accepts neither.
 */
function codingOf(header: string | null): "gzip" | "identity" | undefined {
  const wanted = new Map(
    (header ?? "").split(",").flatMap((each) => {
      const [name = "", ...parameters] = each.split(";").map((part) => part.trim().toLowerCase());
      const isRefused = parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
      return name === "" ? [] : [[name, !isRefused] as const];
    }),
  );
  const takesGzip = wanted.get("gzip") ?? wanted.get("*") ?? false;
  const takesPlain = wanted.get("identity") ?? wanted.get("*") ?? true;
  if (takesGzip && (wanted.size === 1 || !takesPlain)) return "gzip";
  return takesPlain ? "identity" : undefined;
}
