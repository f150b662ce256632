/**
 * The API's connection to Node's HTTP server. It makes sure that a client sees a refusal even while it is still sending
 * its body. It answers malformed HTTP in the same shape as every other error.
 */

import { setMaxListeners } from "node:events";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { getRequestListener, RequestError } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Api } from "../../server.ts";
import { comesFrom, json, keyEndOf } from "../http.ts";
import { liveAnswerOf, sendLive } from "../live.ts";

export function apiListener(api: Pick<Api, "fetch">): RequestListener {
  const listener = getRequestListener(
    async (request, connection) => {
      const incoming = connection.incoming as IncomingMessage; // the daemon gives those of HTTP/2 the same shape
      comesFrom(request, incoming);
      const response = await api.fetch(request, connection);
      const keyEnd = keyEndOf(request);
      // Most answers are complete by then.
      if (keyEnd) setImmediate(endWithKey, keyEnd, connection.outgoing as ServerResponse);
      // Node's response for HTTP/2 does not say whether it waits for its reader, so there the web stream is sent.
      const live = incoming.httpVersionMajor === 1 ? liveAnswerOf(response) : undefined;
      if (live) {
        void sendLive(live, connection.outgoing as ServerResponse);
        return RESPONSE_ALREADY_SENT;
      }
      const isUnread = response.status >= 400 && !incoming.complete && !incoming.destroyed;
      return isUnread ? last(response, incoming) : response;
    },
    // Some health checks speak HTTP/1.0, which has no Host header. The rest of a body is read below: the library would
    // wait for readers that have given up, and then close a connection that serves the next request.
    { hostname: "localhost", errorHandler: answerUnaddressed, autoCleanupIncoming: false },
  );
  return (incoming, outgoing) => {
    outgoing.once("close", () => void discardRest(incoming));
    void listener(incoming, outgoing);
  };
}

/** Reads what is left of a body after its answer, so that the connection can serve the next request. */
async function discardRest(incoming: IncomingMessage): Promise<void> {
  if (incoming.readableEnded || incoming.destroyed) return;
  // Node itself drops a body that has arrived and that no one has begun to read, such as the empty one of a GET.
  if (incoming.complete && !incoming.readableDidRead) return;
  await heardOut(incoming);
  if (!incoming.readableEnded) incoming.destroy();
}

/** Cuts off a long answer, such as a stream, when the key of its request is no longer valid. */
function endWithKey(ended: AbortSignal, outgoing: ServerResponse): void {
  if (outgoing.writableEnded || outgoing.destroyed) return;
  const cut = () => outgoing.destroy();
  if (ended.aborted) cut();
  setMaxListeners(0, ended);
  ended.addEventListener("abort", cut, { once: true });
  outgoing.once("close", () => ended.removeEventListener("abort", cut));
}

/** answers HTTP requests whose host or path is malformed */
function answerUnaddressed(error: unknown): Response {
  const isTheirs = error instanceof RequestError;
  const message = isTheirs ? "Invalid request: its host or its path is malformed." : "An internal error occurred.";
  const code = isTheirs ? malformed.code : "internal_server_error";
  return json({ error: { code, message } }, isTheirs ? 400 : 500);
}

/**
 * Whether a request names two hosts: in two Host headers, or in one header and a different host in the request line. A
 * proxy in front of us may have checked the host that we ignore.
 */
export function namesTwoHosts({ rawHeaders, headers, url = "" }: IncomingMessage): boolean {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === 4 && name.toLowerCase() === "host") hosts++;
  }
  if (hosts > 1) return true;
  // Most request lines have a path only.
  if (url.startsWith("/")) return false;
  const [, named] = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i.exec(url) ?? [];
  return named !== undefined && named.toLowerCase() !== headers.host?.toLowerCase();
}

/** answers a request that names two hosts */
export function answerTwoHosts(outgoing: ServerResponse): void {
  const message = "Invalid request: it names two hosts.";
  const headers = { "content-type": "application/json; charset=utf-8", connection: "close" };
  outgoing.writeHead(malformed.status, headers).end(JSON.stringify({ error: { code: malformed.code, message } }));
}

/** answers requests that Node's parser refuses; handles the server's "clientError" event */
export function answerMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, reason, code, message } = complaints[error.code ?? ""] ?? malformed;
  const body = JSON.stringify({ error: { code, message } });
  const head = [
    `HTTP/1.1 ${status} ${reason}`,
    "content-type: application/json; charset=utf-8",
    `content-length: ${Buffer.byteLength(body)}`,
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`, () => socket.destroy());
}

interface Complaint {
  status: number;
  reason: string;
  code: string;
  message: string;
}

const malformed: Complaint = {
  status: 400,
  reason: "Bad Request",
  code: "bad_request",
  message: "Invalid request: it is not HTTP.",
};

const complaints: Record<string, Complaint> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    reason: "Request Header Fields Too Large",
    code: "bad_request",
    message: "Invalid request: its headers are too long.",
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    reason: "Request Timeout",
    code: "timeout",
    message: "Invalid request: its headers took too long.",
  },
};

/** how much a client may still send after its answer, and for how long, before we close the connection */
const patience = { bytes: 256 << 20, ms: 3000 };

/**
 * Sends a refusal as the last answer of its connection. The answer goes out at once, but the connection closes only
 * when the client has sent everything. If it closed earlier, the client would see a reset instead of the answer.
 */
async function last(response: Response, incoming: IncomingMessage): Promise<Response> {
  const answer = new Uint8Array(await response.arrayBuffer());
  const headers = new Headers(response.headers);
  headers.set("connection", "close");
  headers.set("content-length", String(answer.length));
  let isCancelled = false;
  const lingering = new ReadableStream<Uint8Array>({
    async start(controller) {
      controller.enqueue(answer);
      await heardOut(incoming);
      if (!isCancelled) controller.close();
    },
    cancel() {
      isCancelled = true;
    },
  });
  return new Response(lingering, { status: response.status, headers });
}

function heardOut(incoming: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    if (incoming.readableEnded || incoming.destroyed) return resolve();
    let left = patience.bytes;
    const done = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(done, patience.ms).unref();
    // An earlier reader would go on buffering data, and pause the stream when its buffer is full.
    incoming.removeAllListeners("data");
    // While a "readable" listener exists, Node emits no "data" events.
    incoming.removeAllListeners("readable");
    incoming.on("data", (chunk: Buffer) => {
      left -= chunk.length;
      if (left < 0) done();
    });
    for (const event of ["end", "close", "error"]) incoming.once(event, done);
    incoming.resume();
  });
}
