/** Connects to the outside, and joins a connection from inside a sandbox to one outside, in both directions; both end together. */

import { connect, type Socket } from "node:net";
import type { Destination } from "../../protocols/netd-channel.ts";
import type { TimeShare } from "../fairness/turns.ts";
import { sslRequest } from "./opening.ts";
import { pourBoth } from "./pour.ts";

export interface RelayOptions {
  /** what the program has sent already */
  head?: Buffer;
  /** how the other side is reached, if not straight */
  dial?: (signal: AbortSignal) => Promise<Socket>;
  /** called when the other side is connected, or with the reason why not */
  connected?: () => void;
  failed?: (error: unknown) => void;
  /** called with the first bytes from inside, if they were not read before; returns true to get more of them */
  first?: (bytes: Buffer) => boolean;
  /** what was negotiated with the program before: the server is asked for it too */
  postgres?: boolean;
  /** the machine's share of this process's time */
  share: TimeShare;
  signal: AbortSignal;
}

/** longest that connecting may take, in ms */
const connectTimeout = 30_000;
/** how much of a program's first bytes is read, in bytes and in pieces */
const mostShown = 64 << 10;
const mostLooks = 64;

/** a connection to the destination; rejects with a sentence */
export function dial(destination: Destination, signal: AbortSignal): Promise<Socket> {
  const { address, port } = destination;
  return new Promise((resolve, reject) => {
    const outside = connect({ host: address, port, allowHalfOpen: true, noDelay: true, keepAlive: true });
    const fail = (why: string) => {
      settle();
      outside.destroy();
      reject(new Error(`Cannot connect to ${address} port ${port}: ${why}`));
    };
    const failed = (error: Error) => fail("code" in error ? String(error.code) : error.message);
    const abort = () => fail("the connection was cancelled");
    const late = () => fail("it does not answer");
    const timer = setTimeout(late, connectTimeout);
    const settle = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      outside.off("error", failed);
      // The receiver listens from the next turn on.
      outside.on("error", () => {});
    };
    outside.once("error", failed);
    outside.once("connect", () => {
      settle();
      resolve(outside);
    });
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
  });
}

/**
 * Relays until both directions have ended. A program inside learns of a failure by a reset, since its own side is
 * connected already. Settles when `inside` is closed.
 */
export async function relay(inside: Socket, destination: Destination, options: RelayOptions): Promise<void> {
  const { head, first, postgres = false, share, signal } = options;
  inside.setNoDelay(true);
  const gone = new AbortController();
  const leave = () => gone.abort();
  inside.once("close", leave).on("error", leave);
  let outside: Socket;
  try {
    const until = AbortSignal.any([signal, gone.signal]);
    outside = await (options.dial ? options.dial(until) : dial(destination, until));
    if (postgres) await agreeOnTls(outside, AbortSignal.any([signal, gone.signal]));
  } catch (error) {
    // A program that has left knows why.
    if (!gone.signal.aborted && !signal.aborted) options.failed?.(error);
    inside.resetAndDestroy();
    return closed(inside);
  }
  options.connected?.();
  if (head && head.length > 0) outside.write(head);
  if (first) showFirst(inside, first);
  return joined(inside, outside, share, signal);
}

/** a TLS hello is often longer than a packet: it may come in pieces */
function showFirst(inside: Socket, first: (bytes: Buffer) => boolean): void {
  let seen: Buffer = Buffer.alloc(0);
  let looks = 0;
  const look = (chunk: Buffer) => {
    seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
    looks++;
    if (!first(seen) || seen.length > mostShown || looks === mostLooks) inside.off("data", look);
  };
  inside.on("data", look);
}

function joined(inside: Socket, outside: Socket, share: TimeShare, signal: AbortSignal): Promise<void> {
  const reset = () => {
    inside.resetAndDestroy();
    outside.resetAndDestroy();
  };
  pourBoth(inside, outside, share);
  // An end that fails or vanishes takes the other with it; an orderly end has been passed on.
  for (const socket of [inside, outside]) {
    socket.on("error", reset);
    socket.once("close", () => {
      if (!socket.readableEnded || !socket.writableFinished) reset();
    });
  }
  signal.addEventListener("abort", reset, { once: true });
  if (signal.aborted || inside.destroyed || outside.destroyed) reset();
  return closed(inside).finally(() => signal.removeEventListener("abort", reset));
}

function closed(socket: Socket): Promise<void> {
  if (socket.closed) return Promise.resolve();
  return new Promise((resolve) => {
    socket.once("close", () => resolve());
  });
}

/** asks a PostgreSQL server for TLS, as the program asked us; rejects when it has none */
function agreeOnTls(outside: Socket, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const refuse = () => {
      outside.destroy();
      reject(new Error("Cannot relay: the server has no TLS"));
    };
    const received = (chunk: Buffer) => {
      outside.off("close", refuse);
      outside.pause();
      // More than the one letter would have come before TLS began, from a machine in between.
      if (chunk.length === 1 && chunk[0] === 0x53) resolve();
      else refuse();
    };
    outside.once("close", refuse);
    signal.addEventListener("abort", refuse, { once: true });
    outside.once("data", received);
    outside.write(sslRequest);
  });
}
