/** Joins a connection from inside a sandbox to one outside, both ways, and keeps the two ends' fates together. */

import { connect, type Socket } from "node:net";
import type { Destination } from "./channel.ts";

/** longest that connecting may take, in ms */
const connectTimeout = 30_000;

/**
 * Connects to the destination and relays until both directions have ended. A program inside learns of a failure by a
 * reset, since its own side is connected already. Settles when `inside` is closed.
 */
export function relay(inside: Socket, destination: Destination, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const outside = connect({
      host: destination.address,
      port: destination.port,
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
    });
    inside.setNoDelay(true);
    const reset = () => {
      inside.resetAndDestroy();
      // One that is still connecting would only be reset once it is connected.
      if (outside.connecting) outside.destroy();
      else outside.resetAndDestroy();
    };
    const timer = setTimeout(reset, connectTimeout);
    outside.once("connect", () => {
      clearTimeout(timer);
      inside.pipe(outside);
      outside.pipe(inside);
    });
    // An end that fails or vanishes takes the other with it; an orderly end has been passed on by pipe().
    for (const socket of [inside, outside]) {
      socket.on("error", reset);
      socket.once("close", () => {
        if (!socket.readableEnded || !socket.writableFinished) reset();
      });
    }
    signal.addEventListener("abort", reset, { once: true });
    inside.once("close", () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", reset);
      resolve();
    });
    if (signal.aborted || inside.destroyed) reset();
  });
}
