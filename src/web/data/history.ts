/**
 * What has happened in a sandbox: its snapshots, and its last sessions with their commands and connections. More sessions
 * are read when somebody asks for them. A session that has ended does not change any more, so it is read once.
 */

import { useState } from "preact/hooks";
import { ApiError } from "../../client/client.ts";
import type { Output } from "../../client/types.ts";
import { client } from "../session.ts";
import { type Answer, useAnswer } from "./answer.ts";
import { type EgressLine, type EgressLog, emptyLog, readEgress } from "./egress-log.ts";
import { isLeaving, now, type Sandbox } from "./live.ts";
import { readSamples, type Sample } from "./samples.ts";
import { verdictOf } from "./verdict.ts";

export type Session = Output<"listSessions">["sessions"][number];
type Command = Output<"listCommands">["commands"][number];

export interface History {
  /** newest first */
  sessions: readonly Session[];
  /** whether the sandbox had sessions before these */
  hasOlder: boolean;
  /** of these sessions, newest first */
  commands: readonly Command[];
  snapshots: Output<"listSnapshots">["snapshots"];
  /** of the sessions before the current one, oldest first */
  earlier: readonly EgressLog[];
  /** of all these sessions, oldest first */
  lines: readonly EgressLine[];
  /** of the lines */
  refused: number;
  /** what each of these sessions used over time, as far as the daemon has it */
  loads: readonly SessionLoad[];
}

export interface SessionLoad {
  session: Session;
  /** oldest first */
  samples: readonly Sample[];
}

export interface HistoryAnswer extends Answer<History> {
  readOlder: () => void;
}

/** ms between two reads while the sandbox runs, for connections, of which no event tells */
const every = 5000;
/** sessions that are read at first, and each time that somebody asks for older ones */
const sessionsAtOnce = 5;
const mostSessions = 1000;
const mostCommands = 200;

export function useHistory(sandbox: Sandbox): HistoryAnswer {
  const { name, state, session } = sandbox;
  const [count, setCount] = useState(sessionsAtOnce);
  const turn = state === "running" ? Math.floor(now.value / every) : 0;
  const answer = useAnswer(
    `${name} ${session.id} ${count}`,
    (signal) => readHistory(sandbox, count, signal),
    // The events of its end come while this page deletes it, when there is nothing left to read.
    (event) => !isLeaving(name) && (event.sessionId === session.id || event.sandbox === name),
    turn,
  );
  return { ...answer, readOlder: () => setCount(Math.min(mostSessions, count + sessionsAtOnce)) };
}

/** the last `count` sessions, and what is in them */
export async function readHistory(
  { id, name, session }: Pick<Sandbox, "id" | "name"> & { session: { id: string } },
  count: number,
  signal: AbortSignal,
): Promise<History> {
  const [page, { snapshots }] = await Promise.all([
    client.call("listSessions", { query: { sandbox: name, limit: count }, signal }),
    client.call("listSnapshots", { query: { sandbox: name, limit: 100 }, signal }),
  ]);
  // A deleted sandbox may have had the same name.
  const sessions = page.sessions.filter(({ sandboxId }) => sandboxId === id);
  const contents = await Promise.all(sessions.map((each) => contentOf(each, signal)));
  const logs = contents.map(({ log }) => log).reverse();
  const lines = logs.flatMap((log) => log.lines);
  return {
    sessions,
    hasOlder: page.next !== null && sessions.length === page.sessions.length && count < mostSessions,
    commands: contents.flatMap(({ commands }) => commands),
    snapshots,
    earlier: logs.filter((_, at) => sessions.at(-1 - at)?.id !== session.id),
    lines,
    refused: lines.filter((line) => verdictOf(line) === "refused").length,
    loads: sessions.flatMap((each, at) => ({ session: each, samples: contents[at]?.samples ?? [] })),
  };
}

interface Content {
  commands: readonly Command[];
  log: EgressLog;
  samples: readonly Sample[];
}

/** of sessions that have ended */
const ended = new Map<string, Content>();
const mostEnded = 200;

async function contentOf({ id, endedAt }: Session, signal: AbortSignal): Promise<Content> {
  const known = ended.get(id);
  if (known) return known;
  let isWhole = endedAt !== null;
  const [{ commands }, log, samples] = await Promise.all([
    client.call("listCommands", { params: { session: id }, query: { limit: mostCommands }, signal }),
    // The log of an old session may be gone, and the rest is worth showing without it.
    readEgress(id).catch((error) => {
      isWhole &&= error instanceof ApiError && error.status < 500;
      return emptyLog;
    }),
    readSamples(id, signal).catch(() => []),
  ]);
  const content = { commands, log, samples };
  // How a command ended may be known a moment after its session is over.
  if (isWhole && commands.every((each) => each.endedAt !== null)) ended.set(id, content);
  const [oldest = ""] = ended.keys();
  if (ended.size > mostEnded) ended.delete(oldest);
  return content;
}
