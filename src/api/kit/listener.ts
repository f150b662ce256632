/**
 * Node's side of the API: a request that is refused before all of it was read is still answered so that its client sees
 * the answer, and what is no HTTP at all is told so in the same shape as everything else.
 */

import { setMaxListeners } from "node:events";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { getRequestListener, RequestError } from "@hono/node-server";
import type { Api } from "../server.ts";
import { comesFrom, json, keyEndOf } from "./http.ts";

export function apiListener(api: Pick<Api, "fetch">): RequestListener {
  const listener = getRequestListener(
    async (request, connection) => {
      const incoming = connection.incoming as IncomingMessage; // of the one kind of server there is
      comesFrom(request, incoming);
      const response = await api.fetch(request, connection);
      endWithKey(keyEndOf(request), connection.outgoing as ServerResponse);
      const isUnread = response.status >= 400 && !incoming.complete && !incoming.destroyed;
      return isUnread ? last(response, incoming) : response;
    },
    // HTTP/1.0, which those speak who look whether a server lives, names no host.
    { hostname: "localhost", errorHandler: answerUnaddressed },
  );
  return (incoming, outgoing) => void listener(incoming, outgoing);
}

/** An answer that goes on for long, such as a stream, is cut off when the key that asked for it is no longer good. */
function endWithKey(ended: AbortSignal | undefined, outgoing: ServerResponse): void {
  if (!ended) return;
  const cut = () => outgoing.destroy();
  if (ended.aborted) cut();
  setMaxListeners(0, ended);
  ended.addEventListener("abort", cut, { once: true });
  outgoing.once("close", () => ended.removeEventListener("abort", cut));
}

/** answers what is HTTP and yet has no address: a host that can be none, a path that is not one */
function answerUnaddressed(error: unknown): Response {
  const isTheirs = error instanceof RequestError;
  const message = isTheirs ? "Invalid request: its host or its path is malformed." : "An internal error occurred.";
  const code = isTheirs ? malformed.code : "internal_server_error";
  return json({ error: { code, message } }, isTheirs ? 400 : 500);
}

/**
 * Whether a request names two hosts: by two headers, or by one and an address that has another. A proxy before us may have
 * decided by the one that we do not look at.
 */
export function namesTwoHosts({ rawHeaders, headers, url = "" }: IncomingMessage): boolean {
  const hosts = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host");
  const [, named] = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i.exec(url) ?? [];
  return hosts.length > 1 || (named !== undefined && named.toLowerCase() !== headers.host?.toLowerCase());
}

/** answers a request that names two hosts */
export function answerTwoHosts(outgoing: ServerResponse): void {
  const message = "Invalid request: it names two hosts.";
  const headers = { "content-type": "application/json; charset=utf-8", connection: "close" };
  outgoing.writeHead(malformed.status, headers).end(JSON.stringify({ error: { code: malformed.code, message } }));
}

/** answers what Node's parser refuses; for the server's "clientError" */
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

/** what a client may still send of a request that has its answer, and for how long, before it is cut off */
const patience = { bytes: 256 << 20, ms: 3000 };

/**
 * A refusal as the last answer of its connection. It is whole at once, but the connection ends only when the client has
 * said all: cut off before, it would hear of the cut and never of the answer.
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
    if (incoming.complete || incoming.destroyed) return resolve();
    let left = patience.bytes;
    const done = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(done, patience.ms).unref();
    // Whoever read it before would go on keeping what comes, and hold it back when that is enough.
    incoming.removeAllListeners("data");
    // While something listens for this, Node hands on nothing as data.
    incoming.removeAllListeners("readable");
    incoming.on("data", (chunk: Buffer) => {
      left -= chunk.length;
      if (left < 0) done();
    });
    for (const event of ["end", "close", "error"]) incoming.once(event, done);
    incoming.resume();
  });
}
