/** The resolver that a sandbox sees, on port 53 of its gateway: single questions over UDP, and connections over TCP. */

import type { Socket } from "node:net";
import type { Destination } from "../../protocols/netd-channel.ts";
import { takeMessage, withLength } from "./resolvers.ts";

/** where sandboxes find it; guest/network/net.h says the same */
export const gateways = ["198.18.0.1", "fd73:616e:646b::1"];

const idleTimeout = 15_000;
/** a connection that has this many unanswered questions is not read until some are answered */
const mostAtOnce = 16;

export function isResolver({ address, port }: Destination): boolean {
  return port === 53 && gateways.includes(address);
}

/** Answers the questions of one connection, in whatever order the answers come (RFC 7766). Settles when it is closed. */
export function serveDns(
  inside: Socket,
  answerTo: (question: Buffer) => Promise<Buffer | undefined>,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolveClosed) => {
    let received: Buffer = Buffer.alloc(0);
    let unanswered = 0;
    let ended = false;
    const close = () => inside.destroy();

    const answer = async (question: Buffer) => {
      unanswered++;
      const found = await answerTo(question);
      unanswered--;
      if (inside.destroyed) return;
      // Over TCP silence would leave the program waiting: closing tells it to ask elsewhere.
      if (found) {
        inside.write(withLength(found));
        next();
      } else {
        close();
      }
    };
    const next = () => {
      while (unanswered < mostAtOnce) {
        const taken = takeMessage(received);
        if (!taken) break;
        received = taken.rest;
        void answer(taken.message);
      }
      if (unanswered < mostAtOnce) inside.resume();
      else inside.pause();
      if (ended && unanswered === 0) inside.end();
    };

    inside.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      next();
    });
    inside.on("end", () => {
      ended = true;
      next();
    });
    inside.on("error", close);
    inside.setTimeout(idleTimeout, close);
    signal.addEventListener("abort", close, { once: true });
    inside.once("close", () => {
      signal.removeEventListener("abort", close);
      resolveClosed();
    });
    if (signal.aborted || inside.destroyed) close();
  });
}
