/**
 * What netd and the egress process say to each other, over the channel that Node makes for child processes;
 * guest/egress/egress.h is the other side and writes the messages down.
 */

import type { Socket } from "node:net";

/** The sandbox that something belongs to. */
export interface Sender {
  /** netd's number for it, never given twice */
  id: number;
  /** its name */
  machine: string;
  /** whether a policy of its own decides, rather than that it may reach everything */
  custom: boolean;
}

export interface Destination {
  /** IPv4 or IPv6, as text without a zone */
  address: string;
  port: number;
}

/** What was asked about the program's socket. */
export interface Held {
  /** number of the question who holds it, or 0 */
  holder: number;
}

/** A process that holds a socket. */
export interface Holder {
  /** what it calls itself */
  program: string;
  /** pid, session and start of it, of its parent and so on; none where nobody holds the socket any more */
  ancestry: number[][];
}

export type Request =
  /** a program connected: the connection comes beside the message */
  | ({ kind: "tcp" } & Sender & Destination & Held)
  /** a program sent its first datagram to somewhere */
  | ({ kind: "udp"; flow: number } & Sender & Destination & Held)
  /** a program asked the resolver */
  | ({ kind: "dns"; flow: number; packet: Buffer } & Sender & Held)
  /** a flow of datagrams has ended; bytes as the sandbox sees them */
  | ({ kind: "flow"; sent: number; received: number } & Sender & Destination)
  /** the answer to the question of that number */
  | ({ kind: "holder"; id: number } & Holder)
  /** the sandbox has ended or was cut off: nothing of it may stay open */
  | { kind: "end"; id: number }
  /** the answer to recheck(): no flow is open that was not allowed since */
  | { kind: "rechecked"; id: number }
  | Refused
  /** so many more packets were refused, of which nothing is known */
  | { kind: "unseen"; id: number; machine: string; count: number }
  /** the answer to tell(): what was refused before it has been told */
  | { kind: "told"; id: number };

/** The kernel has refused a packet by itself; the port is 0 where there is none. */
export interface Refused extends Destination {
  kind: "refused";
  id: number;
  machine: string;
  /** the number that IP has for it: TCP and UDP are refused as nothing may leave, any other as it never may */
  protocol: number;
  /** the beginning of what was asked, of a datagram to port 53 */
  packet: Buffer;
}

/** What the egress process says to netd. */
export interface Replies {
  allow(flow: number): void;
  deny(flow: number): void;
  answer(flow: number, packet: Buffer): void;
  unanswered(flow: number): void;
  /** what a machine may reach has changed, or with "*" what all may: open flows end, and are asked for again; answered by "rechecked" */
  recheck(machine: string, token: number): void;
  /** what the kernel has refused to a machine is wanted now, in as far as it was not told; answered by "told" */
  tell(machine: string, token: number): void;
  /** a connection that netd handed over is begun with, so that the machine's next may come; and is closed */
  taken(id: number): void;
  closed(id: number): void;
}

/** netd writes these itself, so a message that does not fit is a mistake of ours, not of a sandbox. */
export function parseRequest(message: unknown): Request {
  const fields = fieldsOf(message);
  const id = numberOf(fields, "id");
  const kind = fields.kind;
  if (kind === "end" || kind === "rechecked" || kind === "told") return { kind, id };
  if (kind === "holder") {
    const program = Buffer.from(textOf(fields, "program"), "hex").toString();
    return { kind, id, program, ancestry: rowsOf(fields, "ancestry") };
  }
  const machine = textOf(fields, "machine");
  if (kind === "unseen") return { kind, id, machine, count: numberOf(fields, "count") };
  const custom = fields.custom === true;
  // A netd that is older than this process does not say it.
  const holder = fields.holder === undefined ? 0 : numberOf(fields, "holder");
  if (kind === "dns") {
    const packet = Buffer.from(textOf(fields, "packet"), "hex");
    return { kind, id, machine, custom, flow: numberOf(fields, "flow"), packet, holder };
  }
  const destination = { address: textOf(fields, "address"), port: numberOf(fields, "port") };
  if (kind === "refused") {
    const packet = Buffer.from(textOf(fields, "packet"), "hex");
    return { kind, id, machine, protocol: numberOf(fields, "protocol"), ...destination, packet };
  }
  const sender = { id, machine, custom };
  if (kind === "tcp") return { kind, ...sender, ...destination, holder };
  if (kind === "udp") return { kind, ...sender, flow: numberOf(fields, "flow"), ...destination, holder };
  if (kind === "flow") {
    return { kind, ...sender, ...destination, sent: numberOf(fields, "sent"), received: numberOf(fields, "received") };
  }
  throw new Error(`Cannot understand a message of kind "${String(kind)}"`);
}

/**
 * Replies are words, not objects, so that netd needs no parser. Connections are counted up and told together; that a
 * single one was taken waits until something else is said of its machine, as netd has others to give until then.
 */
export function replies(send: (line: string) => void): Replies {
  const counts = { taken: new Map<number, number>(), closed: new Map<number, number>() };
  let telling = false;
  const tell = () => {
    telling = false;
    for (const [word, counted] of Object.entries(counts)) {
      for (const [id, count] of counted) {
        if (word === "taken" && count === 1 && !counts.closed.has(id)) continue;
        counted.delete(id);
        send(`${word} ${id} ${count}`);
      }
    }
  };
  const count = (word: keyof typeof counts, id: number) => {
    counts[word].set(id, (counts[word].get(id) ?? 0) + 1);
    if (!telling) setImmediate(tell);
    telling = true;
  };
  return {
    allow: (flow) => send(`allow ${flow}`),
    deny: (flow) => send(`deny ${flow}`),
    answer: (flow, packet) => send(`answer ${flow} ${packet.toString("hex")}`),
    unanswered: (flow) => send(`unanswered ${flow}`),
    recheck: (machine, token) => send(`recheck ${machine} ${token}`),
    tell: (machine, token) => send(`tell ${machine} ${token}`),
    taken: (id) => count("taken", id),
    closed: (id) => count("closed", id),
  };
}

/** a connection as netd passes it: its other direction must stay open when one ends */
export function halfOpen(socket: Socket): Socket {
  socket.allowHalfOpen = true;
  return socket;
}

type Fields = Record<string, unknown>;

function fieldsOf(message: unknown): Fields {
  if (typeof message !== "object" || message === null) throw new Error("Cannot understand a message: not an object");
  // Any object may be looked into by name; what is found is checked below.
  return message as Fields;
}

function numberOf(fields: Fields, name: string): number {
  const value = fields[name];
  if (!Number.isSafeInteger(value)) throw new Error(`Cannot understand a message: "${name}" is not a number`);
  return Number(value);
}

function rowsOf(fields: Fields, name: string): number[][] {
  const rows = fields[name];
  if (!Array.isArray(rows)) throw new Error(`Cannot understand a message: "${name}" is not a list`);
  return rows.map((row: unknown) => (Array.isArray(row) ? row.map(Number) : []));
}

function textOf(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value !== "string") throw new Error(`Cannot understand a message: "${name}" is not text`);
  return value;
}
