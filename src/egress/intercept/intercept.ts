/**
 * Opens the TLS of a program in a sandbox towards a host that has rules: stands in for the host with a certificate that
 * only this sandbox trusts, reads HTTP, does what the rules say, and speaks with the real host over TLS of its own,
 * whose certificate is checked in the program's place.
 *
 *   program ──TLS, leaf of the sandbox's authority──▶ intercept ──TLS, verified──▶ host
 */

import type { Socket } from "node:net";
import { type SecureContext, TLSSocket } from "node:tls";
import type { ForwardHeaders } from "../../core/model/conventions.ts";
import { messageOf } from "../../core/model/errors.ts";
import type { ForwardIdentity, RequestRule } from "../../core/network/network-policy.ts";
import type { Allowance } from "../fairness/allowance.ts";
import type { TimeShare } from "../fairness/turns.ts";
import type { Authority } from "./authority.ts";
import type { ConnectionContext, SeenRequest } from "./decision.ts";
import { type Http1Connection, serveHttp1 } from "./http1-server.ts";
import { mostStreams, serveHttp2 } from "./http2-server.ts";
import { trustedContext, Upstream } from "./upstream.ts";

export type { SeenRequest } from "./decision.ts";

export interface Interception {
  /** the program's connection */
  inside: Socket;
  /** what has been read of it */
  head: Buffer;
  /** the name in the ClientHello, in lower case, allowed by the policy */
  host: string;
  port: number;
  /** bytes that may be under way in either direction before the other side has taken them, over HTTP/2 */
  room?: number | undefined;
  /** how often the machine may do things that cost us much and it nothing */
  costlyFrames: Allowance;
  /** in order; header values in the clear */
  rules: readonly RequestRule[];
  /** a raw connection to an address of the host that may be reached; rejects with a sentence */
  connect(): Promise<Socket>;
  /** a raw connection to where a rule forwards to; rejects with a sentence */
  dial(url: URL): Promise<Socket>;
  authority: Authority;
  /** the machine's share of this process's time */
  share: TimeShare;
  /** identity of the sandbox; rules that forward need it */
  identity?: ForwardIdentity | undefined;
  forwardHeaders?: ForwardHeaders | undefined;
  /** called with each request once its answer has ended */
  seen(request: SeenRequest): void;
  /** called with a sentence if a program's connection failed before its first request */
  failed?(problem: string): void;
  /** cuts both sides off at once */
  signal: AbortSignal;
  /** PEMs to believe besides the roots of Node and of the host */
  roots?: readonly string[] | undefined;
}

/** settles when both sides are closed; never rejects */
export function intercept(options: Interception): Promise<void> {
  const { inside, head, host, signal } = options;
  const means = meansOf(options);
  if (!means) {
    inside.on("error", () => undefined).resetAndDestroy();
    return Promise.resolve();
  }
  const { leaf, trusted } = means;
  return new Promise((resolve) => {
    let served: Served | undefined;
    let http1: Http1Connection | undefined;
    let secured = false;
    let asked = false;
    // A host that closes a connection between requests is taken at its word, so that no request is lost in between.
    const hostClosed = () => {
      if (http1?.queue.length === 0) socket.end();
    };
    if (head.length > 0) inside.unshift(head);
    inside.setNoDelay(true);
    const socket = new TLSSocket(inside, {
      isServer: true,
      secureContext: leaf,
      // The host is asked for a connection while the program still shakes hands.
      ALPNCallback: ({ protocols }) => {
        const chosen = ["h2", "http/1.1", "http/1.0"].find((known) => protocols.includes(known));
        if (chosen !== undefined) serve(chosen === "h2");
        return chosen;
      },
    });
    const timer = setTimeout(() => giveUp("it did not finish the TLS handshake in time"), handshakeTimeout);
    const reset = () => {
      served?.close();
      if (!inside.destroyed) inside.resetAndDestroy();
      socket.destroy();
    };
    const giveUp = (why: string) => {
      options.failed?.(`Cannot serve a connection to "${host}": ${why}`);
      reset();
    };

    socket.once("secure", () => {
      clearTimeout(timer);
      secured = true;
      // What Node's own TLS server says to a connection that it has accepted; HTTP/2 waits for it.
      Object.assign(socket, { secureConnecting: false });
      if (socket.alpnProtocol === "h2") {
        const session = serveHttp2(socket, serve(true).context, options);
        // Data that the session has buffered is useless once the connection is cut.
        session.once("close", () => socket.destroy());
        // A program that has ended its side only waits for answers that come soon. Most such programs are gone, which
        // cannot be noticed: nothing is read any more, and HTTP/2 does not report failed writes.
        socket.once("end", () => {
          session.close();
          const late = setTimeout(reset, lingering);
          socket.once("close", () => clearTimeout(late));
        });
      } else {
        http1 = { context: serve(false).context, reset, queue: [] };
        serveHttp1(socket, http1);
      }
    });
    const failed = (error: Error & { reason?: string }) => {
      if (secured) reset();
      else giveUp(error.reason ?? error.message);
    };
    // Errors of TLS itself come by the second name, as we accepted the connection ourselves.
    socket.on("error", failed).on("_tlsError", failed);
    socket.once("end", () => {
      if (!secured) giveUp(distrust);
    });
    inside.on("error", reset);
    signal.addEventListener("abort", reset, { once: true });
    inside.once("close", () => {
      clearTimeout(timer);
      // Many programs check the certificate last, and leave without an alert.
      if (secured && !asked && !signal.aborted) giveUp(distrust);
      signal.removeEventListener("abort", reset);
      socket.destroy();
      served?.close();
      resolve();
    });
    if (signal.aborted || inside.destroyed) reset();

    function serve(http2: boolean): Served {
      served ??= towards(options, trusted, http2, hostClosed, () => {
        asked = true;
      });
      return served;
    }
  });
}

const distrust = "it left without a request; does it trust this sandbox's authority?";

/** how long a program that has ended its side of HTTP/2 is served, in ms */
const lingering = 2_000;

/** longest that a program may take for its side of the handshake, in ms */
const handshakeTimeout = 30_000;

/** the certificate for the program, and the trusted authorities; undefined if either cannot be had */
function meansOf({
  authority,
  host,
  roots,
  failed,
}: Interception): { leaf: SecureContext; trusted: SecureContext } | undefined {
  try {
    return { leaf: authority.leafFor(host), trusted: trustedContext(roots) };
  } catch (error) {
    failed?.(`Cannot serve a connection to "${host}": ${messageOf(error)}`);
    return undefined;
  }
}

interface Served {
  context: ConnectionContext;
  close(): void;
}

/** The host, and the servers that rules forward to, for one connection of a program. */
function towards(
  options: Interception,
  context: SecureContext,
  http2: boolean,
  closed: () => void,
  asked: () => void,
): Served {
  const { host, port, rules, identity, forwardHeaders, share, seen } = options;
  // Over HTTP/1.1 the next request waits for the last answer, so one connection is enough, and its order is the program's.
  const common = { connections: http2 ? mostStreams : 1, context, room: options.room };
  const origin = new Upstream({ ...common, host, port, secure: true, http2, open: options.connect, closed });
  const forwards = new Map<string, Upstream>();
  const [first] = rules;
  const elsewhere = first && !first.match && first.action.kind !== "set-headers";
  if (!elsewhere) origin.warm();
  const forwardUpstream = (url: URL): Upstream => {
    const known = forwards.get(url.origin);
    if (known) return known;
    const secure = url.protocol === "https:";
    const open = () => options.dial(url);
    const place = { host: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port || (secure ? 443 : 80)) };
    const made = new Upstream({ ...common, ...place, secure, http2: false, open });
    forwards.set(url.origin, made);
    return made;
  };
  return {
    context: { host, port, rules, identity, forwardHeaders, origin, forwardUpstream, share, asked, seen },
    close() {
      origin.close();
      for (const forward of forwards.values()) forward.close();
    },
  };
}
