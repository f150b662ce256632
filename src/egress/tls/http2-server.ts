/** Takes requests of programs over HTTP/2, many at once over one connection. */

import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { TLSSocket } from "node:tls";
import { pairs } from "../../hop-by-hop.ts";
import type { Circumstances, Incoming } from "./decision.ts";
import { type Answering, exchange } from "./exchange.ts";
import { headerObject, valuesOf } from "./headers.ts";
import { longestHead } from "./http1-client.ts";
import { sendTrailers } from "./http2-client.ts";

/** requests at once over one connection; each may hold `window` bytes that its server has not taken yet */
export const mostStreams = 100;
const window = 256 << 10;
/** bytes of all its requests; programs are near, so they need not be many */
const mostRoom = 1 << 20;
const mostHeaders = 1_000;

export function serveHttp2(socket: TLSSocket, circumstances: Circumstances, room = mostRoom): ServerHttp2Session {
  const session = performServerHandshake(socket, {
    maxHeaderListPairs: mostHeaders,
    settings: {
      maxConcurrentStreams: mostStreams,
      initialWindowSize: window,
      maxHeaderListSize: longestHead,
      enablePush: false,
    },
  });
  session.setLocalWindowSize(Math.min(room, mostRoom));
  session.on("error", () => session.destroy());
  session.on("stream", (stream, _headers, flags, raw: string[]) => {
    stream.on("error", () => undefined);
    exchange(circumstances, incomingOf(stream, flags, raw), answeringOn(stream));
  });
  return session;
}

/** trailers may follow, and the date is the server's; the types do not know of that option */
const asItCame = { waitForTrailers: true, sendDate: false };

function incomingOf(stream: ServerHttp2Stream, flags: number, raw: string[]): Incoming {
  const headers = pairs(raw);
  const [method = ""] = valuesOf(headers, ":method");
  const [target = ""] = valuesOf(headers, ":path");
  let trailers: string[] = [];
  stream.on("trailers", (_headers, _flags, rawTrailers: string[]) => {
    trailers = rawTrailers;
  });
  const authorities = [...valuesOf(headers, ":authority"), ...valuesOf(headers, "host")];
  return {
    method,
    target,
    authorities,
    headers,
    hasBody: (flags & constants.NGHTTP2_FLAG_END_STREAM) === 0,
    body: stream,
    trailers: () => pairs(trailers),
  };
}

function answeringOn(stream: ServerHttp2Stream): Answering {
  let trailersOut: Record<string, string | string[]> = {};
  // An answer that was cut off has no end, and trailers would be one.
  stream.on("wantTrailers", () => sendTrailers(stream, trailersOut));
  return {
    get begun() {
      return stream.headersSent;
    },
    inform(status, headers) {
      if (!stream.headersSent && !stream.closed)
        stream.additionalHeaders({ ...headerObject(headers), ":status": status });
    },
    begin(status, _reason, headers) {
      stream.respond({ ...headerObject(headers), ":status": status }, asItCame);
      return stream;
    },
    end(trailers) {
      trailersOut = headerObject(trailers);
      stream.end();
    },
    cut: (code) => stream.close(code),
    over: (listener) => void stream.once("close", listener),
  };
}
