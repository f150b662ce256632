/** The newest lines of sessions' egress logs. Lines that were read once are kept, so that each read asks only for new ones. */

import type { Output } from "../../client/types.ts";
import { client } from "../session.ts";
import { sumOf, type Traffic } from "./verdict.ts";

export type EgressLine = Output<"readEgressLog">["events"][number] & { sessionId: string };

export interface EgressLog {
  /** oldest first */
  lines: readonly EgressLine[];
  /** with the hosts that programs reached */
  hosts: Traffic;
  /** from outside through the sandbox's ports */
  ports: Traffic;
}

const mostLines = 1000;
const mostLogs = 50;

/** by session; the oldest ones give way */
const kept = new Map<string, { after: number; log: EgressLog }>();
const reading = new Map<string, Promise<EgressLog>>();

/** several views that ask at the same time share one read */
export function readEgress(session: string): Promise<EgressLog> {
  const log = reading.get(session) ?? readOn(session).finally(() => reading.delete(session));
  reading.set(session, log);
  return log;
}

async function readOn(session: string): Promise<EgressLog> {
  let { after, log } = kept.get(session) ?? { after: 0, log: emptyLog };
  for (;;) {
    const query = { after, limit: 1000 };
    const { events, hosts, ports, next, more } = await client.call("readEgressLog", { params: { session }, query });
    const lines = [...log.lines, ...events.map((each) => ({ ...each, sessionId: session }))].slice(-mostLines);
    log = { lines, hosts: sumOf(hosts), ports: sumOf(ports) };
    after = next;
    kept.set(session, { after, log });
    const [oldest = ""] = kept.keys();
    if (kept.size > mostLogs) kept.delete(oldest);
    if (!more) return log;
  }
}

export const emptyLog: EgressLog = { lines: [], hosts: sumOf([]), ports: sumOf([]) };
