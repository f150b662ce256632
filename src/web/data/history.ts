/** What has happened in a sandbox: its sessions and snapshots, and the commands and connections of its current session. */

import type { Output } from "../../client/types.ts";
import { client } from "../session.ts";
import { type Answer, useAnswer } from "./answer.ts";
import { type EgressLine, readEgress } from "./egress-log.ts";
import { isLeaving, now, type Sandbox } from "./live.ts";

export interface History {
  sessions: Output<"listSessions">["sessions"];
  commands: Output<"listCommands">["commands"];
  snapshots: Output<"listSnapshots">["snapshots"];
  lines: readonly EgressLine[];
  /** of the lines */
  refused: number;
}

/** ms between two reads while the sandbox runs, for connections, of which no event tells */
const every = 5000;
const mostSessions = 20;
const mostCommands = 200;

export function useHistory({ name, state, session }: Sandbox): Answer<History> {
  const turn = state === "running" ? Math.floor(now.value / every) : 0;
  return useAnswer(
    `${name} ${session.id} ${turn}`,
    (signal) => read(name, session.id, signal),
    // The events of its end come while this page deletes it, when there is nothing left to read.
    (event) => !isLeaving(name) && (event.sessionId === session.id || event.sandbox === name),
  );
}

async function read(name: string, session: string, signal: AbortSignal): Promise<History> {
  const [{ sessions }, { commands }, { snapshots }, { lines }] = await Promise.all([
    client.call("listSessions", { query: { sandbox: name, limit: mostSessions }, signal }),
    client.call("listCommands", { params: { session }, query: { limit: mostCommands }, signal }),
    client.call("listSnapshots", { query: { sandbox: name, limit: 100 }, signal }),
    // The log of an old session may be gone, and the rest is worth showing without it.
    readEgress(session).catch(() => ({ lines: [] })),
  ]);
  return { sessions, commands, snapshots, lines, refused: lines.filter(({ allowed }) => allowed === false).length };
}
