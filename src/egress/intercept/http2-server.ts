/** Takes requests of programs over HTTP/2, many at once over one connection. */

import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { TLSSocket } from "node:tls";
import { pairs } from "../../base/http-headers.ts";
import type { Allowance } from "../fairness/allowance.ts";
import type { Watched } from "../fairness/load-watch.ts";
import type { ConnectionContext, Incoming } from "./decision.ts";
import { type Answering, exchange } from "./exchange.ts";
import { headerObject, valuesOf } from "./headers.ts";
import { longestHead } from "./http1-client.ts";
import { sendTrailers } from "./http2-client.ts";

/** requests at once over one connection; each may hold `window` bytes that its server has not taken yet */
export const mostStreams = 100;
/** requests that may be cancelled over one connection: at once, and per second */
const mostResets = { streamResetBurst: 2 * mostStreams, streamResetRate: 50 };
/** approximate cost of a cancelled request, or of a control frame, in µs */
const costlyFrameCost = 100;
const window = 256 << 10;
/** bytes of all its requests; programs are near, so they need not be many */
const mostRoom = 1 << 20;
const mostHeaders = 1_000;
/** frames that wait for a program to read, from which on it gets no hints */
const mostQueued = mostStreams;

export interface Http2Options {
  room?: number | undefined;
  /** how often its machine may do things that cost us much and it nothing */
  costlyFrames: Allowance;
}

export function serveHttp2(socket: TLSSocket, context: ConnectionContext, options: Http2Options): ServerHttp2Session {
  const { room = mostRoom, costlyFrames } = options;
  const { share } = context;
  const session = performServerHandshake(socket, {
    ...mostResets,
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
  const costlyFrame = () => {
    // The end of the connection cancels everything under way.
    if (session.destroyed) return;
    share.spend(costlyFrameCost);
    if (costlyFrames.take()) return;
    session.destroy(new Error("Too many requests are cancelled"), constants.NGHTTP2_ENHANCE_YOUR_CALM);
  };
  session.on("ping", costlyFrame);
  // The first are how every connection begins.
  session.once("remoteSettings", () => session.on("remoteSettings", costlyFrame));
  const reading = readingOf(socket);
  session.once("close", share.watch(reading));
  // Programs may ask again for what is refused, as nothing of it has happened; but not without end.
  const refuse = (stream: ServerHttp2Stream) => {
    stream.close(constants.NGHTTP2_REFUSED_STREAM);
    reading.hold();
    void share.turn(costlyFrameCost).then(reading.release);
  };
  session.on("stream", (stream, _headers, flags, raw: string[]) => {
    stream.on("error", () => undefined);
    // Node reports a stream a moment after it was opened, when it may have been cancelled already.
    if (stream.closed) return costlyFrame();
    if (share.isFull) return refuse(stream);
    stream.once("aborted", costlyFrame);
    exchange(context, incomingOf(stream, flags, raw), answeringOn(stream));
  });
  return session;
}

/** reads of an HTTP/2 connection; Node has no method to pause them, so this calls its handle */
function readingOf(socket: TLSSocket): Watched {
  const tell = (word: "readStart" | "readStop") => {
    const handle: unknown = Reflect.get(socket, "_handle");
    if (typeof handle === "object" && handle !== null) Reflect.get(handle, word)?.call(handle);
  };
  let holds = 0;
  const hold = () => {
    if (holds++ === 0) tell("readStop");
  };
  const release = () => {
    if (--holds === 0) tell("readStart");
  };
  return { bytes: () => socket.bytesRead, hold, release };
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
      if (stream.headersSent || stream.closed) return;
      // Headers are not subject to flow control, so they would queue without end.
      const { outboundQueueSize = 0 } = stream.session?.state ?? {};
      if (status !== 100 && outboundQueueSize > mostQueued) return;
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
