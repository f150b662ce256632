/** Sends requests over one connection of HTTP/2, many at once. */

import { type ClientHttp2Stream, connect, constants, type Http2Stream, sensitiveHeaders } from "node:http2";
import type { Socket } from "node:net";
import { pairs } from "../../base/http-headers.ts";
import type { Client, Listener, Sending } from "./client.ts";
import { headerObject, without } from "./headers.ts";

export interface Http2Client extends Client {
  /** whether it takes further requests */
  readonly usable: boolean;
}

const mostHeaders = 1_000;
/** bytes of an answer that may be under way before the program has taken them: enough for a long way at some speed */
const window = 256 << 10;
/** and of all answers: not less than those of a few requests */
const usualRoom = 16 * window;

export function http2Client(socket: Socket, host: string, room = usualRoom): Http2Client {
  const session = connect(`https://${host}`, {
    createConnection: () => socket,
    maxHeaderListPairs: mostHeaders,
    settings: { enablePush: false, initialWindowSize: window },
  });
  session.on("error", () => undefined);
  session.once("connect", () => session.setLocalWindowSize(room));
  return {
    get usable() {
      return !session.closed && !session.destroyed;
    },
    send({ method, scheme, authority, target, headers, secret, hasBody, takesTrailers }, listener) {
      const stream = session.request(
        {
          ":method": method,
          ":scheme": scheme,
          ":authority": authority,
          ":path": target,
          ...headerObject(without(headers, "host")),
          ...(takesTrailers && { te: "trailers" }),
          [sensitiveHeaders]: secret,
        },
        { endStream: !hasBody, waitForTrailers: hasBody },
      );
      return sending(stream, listener);
    },
    close: () => session.destroy(),
  };
}

/** trailers that HTTP/2 does not have, such as the same one twice, cut the message off: without them it is not whole */
export function sendTrailers(stream: Http2Stream, trailers: Record<string, string | string[]>): void {
  if (stream.closed) return;
  try {
    stream.sendTrailers(trailers);
  } catch {
    stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  }
}

function sending(stream: ClientHttp2Stream, listener: Listener): Sending {
  let answered = false;
  let failure: Error | undefined;
  let trailersIn: string[] = [];
  let trailersOut: Record<string, string | string[]> = {};
  stream.on("headers", (_headers, _flags, raw: string[]) => {
    const headers = pairs(raw);
    listener.inform(statusOf(headers), headers);
  });
  stream.once("response", (_headers, _flags, raw: string[]) => {
    answered = true;
    const headers = pairs(raw);
    listener.answer({
      status: statusOf(headers),
      reason: "",
      headers,
      body: stream,
      trailers: () => pairs(trailersIn),
      code: () => codeOf(stream),
    });
  });
  stream.on("trailers", (_headers, _flags, raw: string[]) => {
    trailersIn = raw;
  });
  stream.on("wantTrailers", () => sendTrailers(stream, trailersOut));
  stream.on("error", (error) => {
    failure = error;
  });
  stream.once("close", () => {
    const why = failure ?? new Error("the server took the request back");
    if (!answered) listener.failed(why, stream.rstCode || undefined);
  });
  return {
    body: stream,
    end(trailers) {
      trailersOut = headerObject(trailers);
      stream.end();
    },
    abort: (code) => stream.close(code),
    disconnect: () => stream.session?.destroy(),
  };
}

function statusOf(headers: [string, string][]): number {
  return Number(headers.find(([name]) => name === ":status")?.[1] ?? 502);
}

function codeOf({ rstCode }: ClientHttp2Stream): number {
  return rstCode || constants.NGHTTP2_INTERNAL_ERROR;
}
