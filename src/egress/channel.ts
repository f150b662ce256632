/** The egress process's end of the channel to netd, whose messages src/protocols/netd-channel.ts describes. */

import type { Socket } from "node:net";
import { type EgressReply, writeEgressReply } from "../protocols/netd-channel.ts";

/** What the egress process can tell netd; EgressReply says what each one means. */
export interface Replies {
  allow(flow: number): void;
  deny(flow: number): void;
  answer(flow: number, packet: Buffer): void;
  unanswered(flow: number): void;
  /** answered by "rechecked" */
  recheck(machine: string, token: number): void;
  /** answered by "told" */
  tell(machine: string, token: number): void;
  taken(id: number): void;
  closed(id: number): void;
}

/**
 * Counts connections and reports their numbers together. That a single connection was taken waits for the next report
 * about its machine: until then netd has other connections to hand over.
 */
export function replies(send: (line: string) => void): Replies {
  const counts = { taken: new Map<number, number>(), closed: new Map<number, number>() };
  const reply = (value: EgressReply) => send(writeEgressReply(value));
  let isReportDue = false;
  const report = () => {
    isReportDue = false;
    for (const kind of ["taken", "closed"] as const) {
      for (const [id, count] of counts[kind]) {
        if (kind === "taken" && count === 1 && !counts.closed.has(id)) continue;
        counts[kind].delete(id);
        reply({ kind, id, count });
      }
    }
  };
  const count = (kind: keyof typeof counts, id: number) => {
    counts[kind].set(id, (counts[kind].get(id) ?? 0) + 1);
    if (!isReportDue) setImmediate(report);
    isReportDue = true;
  };
  return {
    allow: (flow) => reply({ kind: "allow", flow }),
    deny: (flow) => reply({ kind: "deny", flow }),
    answer: (flow, packet) => reply({ kind: "answer", flow, packet }),
    unanswered: (flow) => reply({ kind: "unanswered", flow }),
    recheck: (machine, token) => reply({ kind: "recheck", machine, token }),
    tell: (machine, token) => reply({ kind: "tell", machine, token }),
    taken: (id) => count("taken", id),
    closed: (id) => count("closed", id),
  };
}

/** a connection as netd passes it: its other direction must stay open when one ends */
export function halfOpen(socket: Socket): Socket {
  socket.allowHalfOpen = true;
  return socket;
}
