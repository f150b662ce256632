/** The newest lines of sessions' egress logs. Lines that were read once are kept, so that each read asks only for new ones. */

import { ApiError } from "../../client/client.ts";
import type { Output } from "../../client/types.ts";
import type { Session } from "../data/history.ts";
import { client } from "../session.ts";

type Page = Output<"readEgressLog">;
export type EgressLine = Page["events"][number] & { sessionId: string };

export interface EgressLog {
  /** oldest first */
  lines: readonly EgressLine[];
  /** whether there were more lines than are kept here */
  isCut: boolean;
  /** with the hosts that programs reached */
  hosts: Page["hosts"];
  /** from outside through the sandbox's ports */
  ports: Page["ports"];
}

/** of a session */
export const mostLines = 1000;
const mostLogs = 50;

interface Kept {
  after: number;
  log: EgressLog;
  /** whether the session had ended when it was read */
  isWhole: boolean;
}

/** by session; the oldest ones give way */
const kept = new Map<string, Kept>();
const gone = new Set<string>();
const reading = new Map<string, Promise<EgressLog>>();

export interface EgressLogs {
  /** of the sessions whose log is still there, oldest session first */
  logs: readonly EgressLog[];
  /** sessions whose log the daemon has deleted */
  gone: readonly string[];
}

/** the logs of these sessions, newest first */
export async function readLogs(sessions: readonly Pick<Session, "id" | "endedAt">[]): Promise<EgressLogs> {
  const found = await Promise.all(sessions.toReversed().map(logUnlessGone));
  return {
    logs: found.flatMap((log) => log ?? []),
    gone: sessions.flatMap(({ id }) => (gone.has(id) ? [id] : [])),
  };
}

async function logUnlessGone(session: Pick<Session, "id" | "endedAt">): Promise<EgressLog | undefined> {
  const { id } = session;
  if (gone.has(id)) return undefined;
  try {
    return await readEgress(session);
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 410)) throw error;
    gone.add(id);
    return undefined;
  }
}

/** several views that ask at the same time share one read */
function readEgress({ id, endedAt }: Pick<Session, "id" | "endedAt">): Promise<EgressLog> {
  const known = kept.get(id);
  if (known?.isWhole) return Promise.resolve(known.log);
  const log = reading.get(id) ?? readOn(id, endedAt !== null).finally(() => reading.delete(id));
  reading.set(id, log);
  return log;
}

async function readOn(session: string, isOver: boolean): Promise<EgressLog> {
  let { after, log } = kept.get(session) ?? { after: 0, log: { lines: [], isCut: false, hosts: [], ports: [] } };
  for (;;) {
    const query = { after, limit: 1000 };
    const { events, hosts, ports, next, more } = await client.call("readEgressLog", { params: { session }, query });
    const all = [...log.lines, ...events.map((each) => ({ ...each, sessionId: session }))];
    log = { lines: all.slice(-mostLines), isCut: log.isCut || all.length > mostLines, hosts, ports };
    after = next;
    kept.set(session, { after, log, isWhole: isOver && !more });
    const [oldest = ""] = kept.keys();
    if (kept.size > mostLogs) kept.delete(oldest);
    if (!more) return log;
  }
}
