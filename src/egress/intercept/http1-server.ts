/** Takes requests of programs over HTTP/1.1, also those that ask for another protocol, such as WebSocket. */

import { createServer, type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { TLSSocket } from "node:tls";
import { pairs } from "../../base/http-headers.ts";
import type { ConnectionContext, Incoming } from "./decision.ts";
import { type Answering, exchange } from "./exchange.ts";
import { type Header, without } from "./headers.ts";
import { longestHead } from "./http1-client.ts";
import { endWith, isUpgrade, upgrade } from "./upgrade.ts";

/** The program behind a connection, and how to cut it off. */
export interface Http1Connection {
  context: ConnectionContext;
  reset(): void;
  /** requests that have no whole answer yet; the first of them is under way, the others have not begun */
  queue: (() => void)[];
}

/** number of requests that a program may send before the first is answered */
const mostAtOnce = 128;

const connections = new WeakMap<object, Http1Connection>();

/** never listens: connections are given to it once they are decrypted */
const server = createServer({
  maxHeaderSize: longestHead,
  insecureHTTPParser: false,
  requestTimeout: 0,
  headersTimeout: 0,
  keepAliveTimeout: 0,
  shouldUpgradeCallback: isUpgrade,
});
server.on("request", (request, response) => handle(request, response, false));
server.on("checkContinue", (request, response) => handle(request, response, true));
server.on("upgrade", (request, socket, head) => {
  const connection = connections.get(socket);
  if (connection) upgrade(connection.context, incomingOf(request), socket, head);
  else socket.destroy();
});
server.on("connect", (_request, socket) => {
  endWith(socket, plain(405, "Cannot open a tunnel through a connection whose host has rules"));
});
server.on("clientError", (error, socket) => {
  if (!socket.writable || socket.destroyed) return void socket.destroy();
  const { message } = error;
  endWith(socket, plain(400, `Cannot read the request: ${message}. A host with rules is spoken to in HTTP only`));
});
// A program may end its side before it has received all answers.
Object.assign(server, { httpAllowHalfOpen: true });

export function serveHttp1(socket: TLSSocket, connection: Http1Connection): void {
  connections.set(socket, connection);
  server.emit("connection", socket);
}

function handle(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
  const connection = connections.get(request.socket);
  if (!connection) return void request.socket.destroy();
  const encoding = request.headers["transfer-encoding"];
  if (encoding !== undefined && encoding.trim().toLowerCase() !== "chunked") {
    response.shouldKeepAlive = false;
    const problem = `Cannot take a body with the Transfer-Encoding "${encoding}"`;
    return void response.writeHead(501, { "content-type": "text/plain" }).end(`${problem}\n`);
  }
  const { context, queue } = connection;
  const begin = () => {
    if (!response.destroyed)
      exchange(context, incomingOf(request), answeringOn(request, response, connection, expectsContinue));
  };
  response.once("close", () => {
    queue.shift();
    queue[0]?.();
  });
  // The server answers in the order in which it is asked, so the next is passed on when the last has its answer.
  queue.push(begin);
  if (queue.length > mostAtOnce) connection.reset();
  else if (queue.length === 1) begin();
}

function incomingOf(request: IncomingMessage): Incoming {
  const { method = "", url = "", headers } = request;
  return {
    method,
    target: url,
    authorities: request.headersDistinct.host ?? [],
    headers: pairs(request.rawHeaders),
    hasBody: headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0,
    body: request,
    trailers: () => pairs(request.rawTrailers),
  };
}

function answeringOn(
  request: IncomingMessage,
  response: ServerResponse,
  connection: Http1Connection,
  expectsContinue: boolean,
): Answering {
  let waiting = expectsContinue;
  response.sendDate = false;
  response.on("error", () => undefined);
  return {
    get begun() {
      return response.headersSent;
    },
    inform(status, headers) {
      if (response.headersSent || response.destroyed) return;
      if (status === 100) {
        if (waiting) response.writeContinue();
        waiting = false;
      } else if (request.httpVersion !== "1.0" && !response.socket?.writableNeedDrain) {
        response.writeInformation(status, headers.flat());
      }
    },
    begin(status, reason, headers) {
      // The body may come or not: what follows cannot be distinguished from it.
      if (waiting) response.shouldKeepAlive = false;
      const framed = isChunked(status, request, headers) ? headers : without(headers, "trailer");
      response.writeHead(status, reason || STATUS_CODES[status] || "", framed.flat());
      // The part of the body that has arrived is sent; the rest is not awaited.
      const { socket } = response;
      socket?.cork();
      response.flushHeaders();
      setImmediate(() => socket?.uncork());
      return response;
    },
    end(trailers) {
      if (trailers.length > 0 && response.chunkedEncoding) response.addTrailers(trailers);
      response.end();
    },
    cut: () => connection.reset(),
    over: (listener) => void response.once("close", listener),
  };
}

function isChunked(status: number, request: IncomingMessage, headers: Header[]): boolean {
  if (request.method === "HEAD" || status === 204 || status === 304 || request.httpVersion === "1.0") return false;
  return !headers.some(([name]) => name.toLowerCase() === "content-length");
}

function plain(status: number, problem: string): string {
  const length = Buffer.byteLength(problem) + 1;
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: ${length}\r\nconnection: close\r\n\r\n${problem}\n`;
}
