/**
 * The API's connection to Node's HTTP server. It makes sure that a client sees a refusal even while it is still sending
 * its body. It answers malformed HTTP in the same shape as every other error.
 */

import { setMaxListeners } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Api } from "../../server.ts";
import { json } from "../http.ts";
import { MalformedRequest } from "./request-url.ts";
import { type Exchange, heardOut, send } from "./sending.ts";
import { ServedRequest } from "./served-request.ts";

/** `headers` are added to the answer; their names are in lower case */
export type ApiListener = (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  headers?: Record<string, string>,
) => void;

/** the daemon gives requests and answers of HTTP/2 the same shape as those of HTTP/1.1 */
export function apiListener(api: Pick<Api, "fetch">): ApiListener {
  return (incoming, outgoing, headers = {}) => {
    let request: (ServedRequest & Request) | undefined;
    outgoing.on("close", () => {
      request?.closed(outgoing);
      void discardRest(incoming);
    });
    try {
      request = ServedRequest.of(incoming);
    } catch (error) {
      void send(answerFailed(error), { incoming, outgoing, headers });
      return;
    }
    void answer(api, request, { incoming, outgoing, headers });
  };
}

async function answer(api: Pick<Api, "fetch">, request: ServedRequest & Request, exchange: Exchange): Promise<void> {
  let response: Response;
  try {
    response = await api.fetch(request, exchange);
  } catch (error) {
    response = answerFailed(error);
  }
  // Most answers are complete by then.
  if (request.keyEnd) setImmediate(endWithKey, request.keyEnd, exchange.outgoing);
  await send(response, exchange);
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

/** answers HTTP requests whose host or path is malformed, and those that fail in a way that no dialect words */
function answerFailed(error: unknown): Response {
  const isTheirs = error instanceof MalformedRequest;
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
