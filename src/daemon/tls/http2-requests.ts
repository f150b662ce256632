/**
 * HTTP/2 in the shape of HTTP/1.1, which every listener knows. Node's compatible requests and responses are close to it;
 * this adds what is missing, and limits what one connection may cost.
 */

import type { IncomingMessage, OutgoingHttpHeaders, RequestListener, ServerResponse } from "node:http";
import {
  constants,
  createServer,
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from "node:http2";
import { Readable } from "node:stream";
import { hopByHop, pairs } from "../../base/http-headers.ts";

/** requests at once over one connection; each may hold `window` bytes that no one has read yet */
const mostStreams = 100;
const window = 256 << 10;
/** requests that may be cancelled over one connection: at once, and per second */
const mostResets = { streamResetBurst: 2 * mostStreams, streamResetRate: 50 };
/** bytes of the headers of a request, as many as over HTTP/1.1, and their number */
const longestHead = 16 << 10;
const mostHeaders = 256;
/** bytes of headers at which Node gives a request up; it begins to count when the client has confirmed the settings */
const longestList = 4 * longestHead;
/** ms without a byte after which a connection without requests closes, and one with requests has to answer a ping */
const idleTime = 65_000;

/** never listens: connections whose TLS is done are given to it with emit("connection") */
export function http2Server(listener: RequestListener, idle = idleTime): Http2Server {
  const options = {
    ...mostResets,
    maxHeaderListPairs: mostHeaders,
    settings: {
      maxConcurrentStreams: mostStreams,
      initialWindowSize: window,
      maxHeaderListSize: longestList,
      enablePush: false,
    },
  };
  const server = createServer(options, (request, response) => {
    if (request.rawHeaders.join("").length > longestHead) answerTooLong(response);
    else listener(...inHttp1(request, response));
  });
  server.on("session", (session) => guard(session, idle));
  return server;
}

function answerTooLong(response: Http2ServerResponse): void {
  const error = { code: "bad_request", message: "Invalid request: its headers are too long." };
  response.writeHead(431, { "content-type": "application/json; charset=utf-8" });
  response.end(JSON.stringify({ error }));
}

/** closes connections that nothing uses, and those whose client is gone without a word */
function guard(session: ServerHttp2Session, idle: number): void {
  let streams = 0;
  let isAsked = false;
  session.on("error", () => session.destroy());
  session.on("stream", (stream) => {
    streams++;
    stream.once("close", () => streams--);
  });
  session.setTimeout(idle, () => {
    if (streams === 0) return session.close();
    if (isAsked) return session.destroy();
    isAsked = true;
    session.ping(() => {
      isAsked = false;
    });
  });
}

/** the same request and response, as listeners for HTTP/1.1 expect them */
function inHttp1(request: Http2ServerRequest, response: Http2ServerResponse): Parameters<RequestListener> {
  const { stream, headers, rawHeaders, authority } = request;
  rawHeaders.splice(0, rawHeaders.length, ...http1Headers(rawHeaders, authority));
  if (authority) headers.host = authority;
  // A body without a length is one that HTTP/1.1 sends in chunks.
  if (!stream.endAfterHeaders && headers["content-length"] === undefined) headers["transfer-encoding"] = "chunked";
  const cut = (code: number) => {
    if (!stream.closed) stream.close(code);
  };
  // Node ends the body of a request that is cut off as if it were whole.
  request.on("error", () => undefined);
  stream.once("aborted", () => Readable.prototype.destroy.call(request, new Error("The client cut the request off")));
  // After its whole answer a client need not send the rest of its body.
  stream.once("finish", () => setImmediate(cut, constants.NGHTTP2_NO_ERROR));
  Object.assign(request, { destroy: () => cut(constants.NGHTTP2_NO_ERROR) });
  const writeHead = response.writeHead.bind(response);
  const addTrailers = response.addTrailers.bind(response);
  Object.assign(response, {
    // A body that breaks off must not look whole, so the stream ends with an error.
    destroy: () => cut(constants.NGHTTP2_INTERNAL_ERROR),
    addTrailers: (trailers: readonly [string, string][]) => addTrailers(http2Headers(trailers.flat())),
    writeHead: (status: number, ...rest: unknown[]) => writeHead(status, http2Headers(rest.at(-1))),
  });
  // Node has no common type for the two versions.
  return [request as unknown as IncomingMessage, response as unknown as ServerResponse<IncomingMessage>];
}

/** without pseudo headers, with a Host, and with the cookies in one header, as HTTP/1.1 wants it (RFC 9113, 8.2.3) */
export function http1Headers(raw: readonly string[], authority: string | undefined): string[] {
  const all = pairs(raw).filter(([name]) => !name.startsWith(":"));
  const others = all.filter(([name, value]) => name !== "cookie" && !(name === "host" && value === authority));
  const cookies = all.flatMap(([name, value]) => (name === "cookie" ? [value] : []));
  return [
    ...(authority ? ["host", authority] : []),
    ...others.flat(),
    ...(cookies.length > 0 ? ["cookie", cookies.join("; ")] : []),
  ];
}

/**
 * from what writeHead() takes, a list or an object; HTTP/2 has no headers about the connection, and a header that may
 * have one value only keeps its first, as clients of HTTP/1.1 read it
 */
export function http2Headers(given: unknown): OutgoingHttpHeaders {
  const list: [string, unknown][] = Array.isArray(given) ? pairs(given) : Object.entries(Object(given));
  const headers = new Map<string, string[]>();
  for (const [name, value] of list) {
    const key = name.toLowerCase();
    const values = [value].flat().map(String);
    if (hopByHop.includes(key)) continue;
    headers.set(key, [...(headers.get(key) ?? []), ...values].slice(0, ofOneValue.has(key) ? 1 : undefined));
  }
  return Object.fromEntries([...headers].map(([name, values]) => [name, values.length > 1 ? values : values[0]]));
}

/** headers of which Node's HTTP/2 refuses a second value */
const ofOneValue = new Set([
  "access-control-allow-credentials",
  "access-control-max-age",
  "access-control-request-method",
  "age",
  "authorization",
  "content-encoding",
  "content-language",
  "content-length",
  "content-location",
  "content-md5",
  "content-range",
  "content-type",
  "date",
  "dnt",
  "etag",
  "expires",
  "from",
  "host",
  "if-match",
  "if-modified-since",
  "if-none-match",
  "if-range",
  "if-unmodified-since",
  "last-modified",
  "location",
  "max-forwards",
  "proxy-authorization",
  "range",
  "referer",
  "retry-after",
  "tk",
  "upgrade-insecure-requests",
  "user-agent",
  "x-content-type-options",
]);
