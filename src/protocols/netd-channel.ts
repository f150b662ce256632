/**
 * The messages between netd and the egress process, over the channel that Node makes for child processes: one JSON value
 * a line. guest/egress/egress.h is the other side, and lists every message. netd writes objects, and the egress process
 * answers with lines of words, so that netd needs no JSON parser:
 *
 *   {"kind":"udp","id":1,"machine":"a","custom":false,"flow":2,"address":"1.2.3.4","port":123,"holder":5}
 *   "allow 2"
 *
 * The egress process may be replaced while netd stays, so either may be older. A number at "v" in a message is the version
 * of the format, 1 where the field is missing. The reader ignores fields that it does not know, and netd ignores words.
 */

import { checkVersion } from "./newer-format.ts";
import {
  byKind,
  flag,
  type KindShapes,
  list,
  Mismatch,
  number,
  object,
  otherwise,
  type Shape,
  text,
  whole,
} from "./shapes.ts";

export const netdChannelVersion = 1;

/** The sandbox that a message belongs to. */
export interface Sender {
  /** netd's number for it, never used twice */
  id: number;
  /** its name */
  machine: string;
  /** whether it has a network policy of its own; otherwise it may reach everything */
  custom: boolean;
}

export interface Destination {
  /** IPv4 or IPv6, as text without a zone */
  address: string;
  port: number;
}

/** Beside a message about a program's socket. */
export interface Held {
  /** number of the lookup that asks which process holds the socket, or 0 */
  holder: number;
}

/** A process that holds a socket. */
export interface Holder {
  /** the name that the process gives itself */
  program: string;
  /** pid, session and start time of the process, of its parent and so on; empty when no process holds the socket any more */
  ancestry: number[][];
}

export type NetdMessage =
  /** a program connected: the connection comes beside the message */
  | ({ kind: "tcp" } & Sender & Destination & Held)
  /** a program sent its first datagram to a destination */
  | ({ kind: "udp"; flow: number } & Sender & Destination & Held)
  /** a program asked the resolver */
  | ({ kind: "dns"; flow: number; packet: Buffer } & Sender & Held)
  /** a flow of datagrams has ended; bytes as the sandbox sees them */
  | ({ kind: "flow"; sent: number; received: number } & Sender & Destination)
  /** the answer to the lookup of that number */
  | ({ kind: "holder"; id: number } & Holder)
  /** the sandbox has ended or was cut off: all its connections must be closed */
  | { kind: "end"; id: number }
  /** the answer to "recheck": every open flow has been allowed since */
  | { kind: "rechecked"; id: number }
  | RefusedPacket
  /** number of further refused packets, about which nothing else is known */
  | { kind: "unseen"; id: number; machine: string; count: number }
  /** the answer to "tell": every packet that was refused before it has been reported */
  | { kind: "told"; id: number };

/** A packet that the kernel refused by itself; the port is 0 for protocols without ports. */
export interface RefusedPacket extends Destination {
  kind: "refused";
  id: number;
  machine: string;
  /** protocol number of IP: TCP and UDP are refused under deny-all, any other protocol always */
  protocol: number;
  /** the beginning of the query, of a datagram to port 53 */
  packet: Buffer;
}

/** A line of the egress process to netd. */
export type EgressReply =
  | { kind: "allow" | "deny" | "unanswered"; flow: number }
  | { kind: "answer"; flow: number; packet: Buffer }
  /** the policy of a machine has changed, with "*" that of all: open flows end and are asked about again */
  | { kind: "recheck"; machine: string; token: number }
  /** asks for the packets of a machine that the kernel refused and netd has not reported yet */
  | { kind: "tell"; machine: string; token: number }
  /** the egress process has begun with that many connections of the sandbox, or has closed that many */
  | { kind: "taken" | "closed"; id: number; count: number };

const hex: Shape<Buffer> = (value, path) => Buffer.from(text(value, path), "hex");
const hexText: Shape<string> = (value, path) => hex(value, path).toString();
const from = { id: whole, machine: text };
const sender = { ...from, custom: otherwise(flag, false) };
// An older netd does not send a holder.
const held = { holder: otherwise(whole, 0) };
const destination = { address: text, port: whole };
const about = object<{ id: number }>({ id: whole });
const shapes: KindShapes<NetdMessage> = {
  tcp: object({ ...sender, ...destination, ...held }),
  udp: object({ ...sender, flow: whole, ...destination, ...held }),
  dns: object({ ...sender, flow: whole, packet: hex, ...held }),
  flow: object({ ...sender, ...destination, sent: whole, received: whole }),
  holder: object({ id: whole, program: hexText, ancestry: list(list(number)) }),
  end: about,
  rechecked: about,
  told: about,
  refused: object({ ...from, protocol: whole, ...destination, packet: hex }),
  unseen: object({ ...from, count: whole }),
};
const anyMessage = byKind(shapes);

/** takes what Node has parsed; throws NewerFormat, or an error for a message that netd never sends */
export function readNetdMessage(message: unknown): NetdMessage {
  checkVersion("a message of netd", message, netdChannelVersion);
  try {
    return anyMessage(message, "");
  } catch (error) {
    if (!(error instanceof Mismatch)) throw error;
    throw new Error(`Cannot understand a message${problem(message, error)}`);
  }
}

export function writeEgressReply(reply: EgressReply): string {
  if (reply.kind === "answer") return `answer ${reply.flow} ${reply.packet.toString("hex")}`;
  if ("flow" in reply) return `${reply.kind} ${reply.flow}`;
  if ("token" in reply) return `${reply.kind} ${reply.machine} ${reply.token}`;
  return `${reply.kind} ${reply.id} ${reply.count}`;
}

function problem(message: unknown, mismatch: Mismatch): string {
  if (typeof message !== "object" || message === null) return ": not an object";
  const isKnown = "kind" in message && typeof message.kind === "string" && Object.hasOwn(shapes, message.kind);
  return isKnown ? `: ${mismatch.message}` : ` of kind "${"kind" in message ? String(message.kind) : ""}"`;
}
