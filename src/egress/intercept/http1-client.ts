/** Sends requests over HTTP/1.1, each connection carrying one at a time and kept for the next. */

import { Agent, type ClientRequest, type IncomingMessage, request as send } from "node:http";
import { constants } from "node:http2";
import type { Socket } from "node:net";
import { pairs } from "../../base/http-headers.ts";
import type { Client, Listener, Outgoing, Sending } from "./client.ts";
import { type Header, valuesOf, withOneCookie, without } from "./headers.ts";

export interface Http1Options {
  open(): Promise<Socket>;
  /** most connections at once */
  connections: number;
}

/** longest that all headers of a message may be, in bytes */
export const longestHead = 64 << 10;

export function http1Client({ open, connections }: Http1Options): Client {
  const agent = new Agent({ keepAlive: true, maxSockets: connections, maxFreeSockets: connections });
  agent.createConnection = (_options, created) => {
    open().then(
      (socket) => created?.(null, socket),
      // The type asks for a socket even beside an error, where there is none.
      (error: Error) => (created as ((error: Error) => void) | undefined)?.(error),
    );
    return undefined;
  };
  return {
    send: (request, listener) => sending(send({ ...lineOf(request), agent }), request, listener),
    close: () => agent.destroy(),
  };
}

/** a request for another protocol, over a connection of its own */
export function sendUpgrade(socket: Socket, request: Outgoing, protocol: string): ClientRequest {
  const { headers, ...line } = lineOf(request);
  const upgrade = ["Connection", "Upgrade", "Upgrade", protocol];
  return send({ ...line, headers: [...headers, ...upgrade], createConnection: () => socket });
}

/** how the length of a body is announced without Content-Length */
export function framing(method: string, headers: readonly Header[], hasBody: boolean): Header[] {
  if (valuesOf(headers, "content-length").length > 0) return [];
  if (hasBody) return [["Transfer-Encoding", "chunked"]];
  // Without this Node would announce a body for every method that may have one.
  return ["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"].includes(method) ? [] : [["Content-Length", "0"]];
}

function lineOf(request: Outgoing) {
  const { method, target, authority, hasBody, takesTrailers } = request;
  const frame = framing(method, request.headers, hasBody);
  const headers = frame.some(([name]) => name === "Transfer-Encoding")
    ? request.headers
    : without(request.headers, "trailer");
  const te: Header[] = takesTrailers ? [["TE", "trailers"]] : [];
  return {
    method,
    path: target,
    headers: [["Host", authority] satisfies Header, ...withOneCookie(headers), ...te, ...frame].flat(),
    setHost: false,
    maxHeaderSize: longestHead,
    insecureHTTPParser: false,
  };
}

function sending(onward: ClientRequest, { hasBody }: Outgoing, listener: Listener): Sending {
  onward.on("information", ({ statusCode, rawHeaders }) => listener.inform(statusCode, pairs(rawHeaders)));
  onward.once("response", (response) => {
    const problem = problemOf(response);
    if (problem === undefined) return listener.answer(answerOf(response));
    onward.destroy();
    listener.failed(new Error(problem));
  });
  // No other protocol was requested.
  onward.once("upgrade", (_response, socket) => {
    socket.destroy();
    listener.failed(new Error("the server changed the protocol without a request"));
  });
  onward.on("error", (error) => listener.failed(error));
  // Nagle's wait for more would only delay the head of what may be a long upload.
  if (hasBody) onward.flushHeaders();
  return {
    body: onward,
    end(trailers) {
      if (trailers.length > 0) onward.addTrailers(trailers);
      onward.end();
    },
    abort: () => void onward.destroy(),
    disconnect: () => void onward.destroy(),
  };
}

function answerOf(response: IncomingMessage) {
  return {
    status: response.statusCode ?? 502,
    reason: response.statusMessage ?? "",
    headers: pairs(response.rawHeaders),
    body: response,
    trailers: () => pairs(response.rawTrailers),
    code: () => constants.NGHTTP2_INTERNAL_ERROR,
  };
}

/** a body that is encoded on its way otherwise than by being chunked would arrive as something else */
function problemOf({ headers }: IncomingMessage): string | undefined {
  const encoding = headers["transfer-encoding"];
  return encoding === undefined || encoding.trim().toLowerCase() === "chunked"
    ? undefined
    : `the server's Transfer-Encoding "${encoding}" is not supported`;
}
