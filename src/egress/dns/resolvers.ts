/** Asks the host's resolvers on behalf of a sandbox: questions and answers go through unread, over UDP or TCP. */

import { createSocket } from "node:dgram";
import { connect, isIP } from "node:net";
import type { Destination } from "../../protocols/netd-channel.ts";

/** the fixed part of every DNS message (RFC 1035, 4.1.1): it begins with the id, then the flags */
const headerLength = 12;
const isResponse = 0x80;
const longestAnswer = 65_535;

export interface ResolveOptions {
  resolvers: Destination[];
  /** how the program asked: over UDP an answer may say that it was cut short, and the program then asks over TCP */
  transport: "udp" | "tcp";
  signal: AbortSignal;
  /** how long one resolver may take before the next is asked, in ms */
  patience?: number;
}

/** The answer to a question, or undefined when no resolver gave one. */
export async function resolve(question: Buffer, options: ResolveOptions): Promise<Buffer | undefined> {
  const { resolvers, transport, signal, patience = 2_500 } = options;
  if (!isQuestion(question)) return undefined;
  // A resolver that is silent over UDP may still answer over TCP.
  const transports = transport === "udp" ? [askByUdp, askByTcp] : [askByTcp];
  for (const ask of transports) {
    for (const resolver of resolvers) {
      if (signal.aborted) return undefined;
      const answer = await ask(question, resolver, AbortSignal.any([signal, AbortSignal.timeout(patience)]));
      if (answer) return answer;
    }
  }
  return undefined;
}

/** Resolvers as settings and Node's dns.getServers() write them: "1.1.1.1", "1.1.1.1:5353", "2606::1", "[2606::1]:53". */
export function parseResolver(text: string): Destination {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(text) ?? [];
  const address = isIP(text) ? text : (bracketed ?? plain ?? "").replace(/%.*$/, "");
  if (isIP(address) === 0) throw new Error(`Cannot use the resolver "${text}": not an address`);
  return { address, port: isIP(text) || port === undefined ? 53 : Number(port) };
}

/** Cuts what came over a TCP connection into messages, each of which is preceded by its length in two bytes. */
export function takeMessage(buffer: Buffer): { message: Buffer; rest: Buffer } | undefined {
  if (buffer.length < 2) return undefined;
  const end = 2 + buffer.readUInt16BE(0);
  if (buffer.length < end) return undefined;
  return { message: buffer.subarray(2, end), rest: buffer.subarray(end) };
}

export function withLength(message: Buffer): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(message.length, 0);
  return Buffer.concat([length, message]);
}

type Ask = (question: Buffer, resolver: Destination, signal: AbortSignal) => Promise<Buffer | undefined>;

/** A socket of its own for each question: its random port is what makes an answer hard to forge. */
const askByUdp: Ask = (question, resolver, signal) =>
  settle(signal, (done) => {
    const socket = createSocket(isIP(resolver.address) === 6 ? "udp6" : "udp4");
    socket.on("error", () => done(undefined));
    socket.on("message", (answer) => {
      if (answers(question, answer)) done(answer);
    });
    // By event rather than by callback: a callback would be given the errors too, instead of "error".
    socket.on("connect", () => {
      if (!signal.aborted) socket.send(question);
    });
    socket.connect(resolver.port, resolver.address);
    return () => socket.close();
  });

const askByTcp: Ask = (question, resolver, signal) =>
  settle(signal, (done) => {
    const socket = connect(resolver.port, resolver.address, () => socket.write(withLength(question)));
    let received: Buffer = Buffer.alloc(0);
    socket.on("error", () => done(undefined));
    socket.on("close", () => done(undefined));
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      const message = takeMessage(received)?.message;
      if (message && answers(question, message)) done(message);
      else if (message || received.length > longestAnswer + 2) done(undefined);
    });
    return () => socket.destroy();
  });

/** Runs something that calls `done` at some time, at most until the signal aborts; its undo is called once either way. */
function settle<T>(
  signal: AbortSignal,
  start: (done: (value: T | undefined) => void) => () => void,
): Promise<T | undefined> {
  return new Promise((resolve) => {
    let over = false;
    const done = (value: T | undefined) => {
      if (over) return;
      over = true;
      signal.removeEventListener("abort", abort);
      undo();
      resolve(value);
    };
    const abort = () => done(undefined);
    const undo = start(done);
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
  });
}

function isQuestion(packet: Buffer): boolean {
  return packet.length >= headerLength && packet.length <= longestAnswer && (packet.readUInt8(2) & isResponse) === 0;
}

function answers(question: Buffer, answer: Buffer): boolean {
  if (answer.length < headerLength || (answer.readUInt8(2) & isResponse) === 0) return false;
  return answer.readUInt16BE(0) === question.readUInt16BE(0);
}
