/**
 * What has happened in a sandbox: its last sessions with their commands, and its tape, which counts everything in them. More
 * sessions are read when somebody asks for them. A session that has ended does not change any more, so it is read once.
 */

import { useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { client } from "../session.ts";
import { type Answer, useAnswer } from "./answer.ts";
import { isLeaving, now, type Sandbox } from "./live.ts";

export type Session = Output<"listSessions">["sessions"][number];
export type Command = Output<"listCommands">["commands"][number];
export type Tape = Output<"getTape">;

export interface History {
  /** newest first */
  sessions: readonly Session[];
  /** whether the sandbox had sessions before these */
  hasOlder: boolean;
  /** of these sessions, newest first */
  commands: readonly Command[];
  /** whether these sessions had more commands than are listed */
  hasMoreCommands: boolean;
  /** of the sandbox, the newest */
  snapshots: Output<"listSnapshots">["snapshots"];
  /** of these sessions */
  tape: Tape;
  /** of everything on the tape */
  totals: Totals;
}

export interface Totals {
  commands: number;
  allowed: number;
  refused: number;
}

export interface HistoryAnswer extends Answer<History> {
  readOlder: () => void;
}

/** ms between two reads while the sandbox runs, for connections, of which no event tells */
const every = 5000;
/** sessions that are read at first, and each time that somebody asks for older ones */
const sessionsAtOnce = 5;
/** those that a tape shows */
const mostSessions = 100;
/** of a session */
export const mostCommands = 200;
/** parts of a tape: about one for each pixel or two of its drawing */
const buckets = 600;

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
  { id, name }: Pick<Sandbox, "id" | "name">,
  count: number,
  signal: AbortSignal,
): Promise<History> {
  const page = await client.call("listSessions", { query: { sandbox: name, limit: count }, signal });
  // A deleted sandbox may have had the same name.
  const sessions = page.sessions.filter(({ sandboxId }) => sandboxId === id);
  const [tape, { snapshots }, lists] = await Promise.all([
    client.call("getTape", { params: { sandbox: name }, query: { ...spanOf(sessions), buckets }, signal }),
    client.call("listSnapshots", { query: { sandbox: name, limit: 100 }, signal }),
    Promise.all(sessions.map((each) => commandsOf(each, signal))),
  ]);
  return {
    sessions,
    hasOlder: page.next !== null && sessions.length === page.sessions.length && count < mostSessions,
    commands: lists.flatMap(({ commands }) => commands),
    hasMoreCommands: lists.some(({ isWhole }) => !isWhole),
    snapshots,
    tape,
    totals: totalsOf(tape),
  };
}

/** from the beginning of the oldest session to now, or to the end of the newest one */
function spanOf(sessions: readonly Session[]): { from?: number; to?: number } {
  const [newest, oldest] = [sessions[0], sessions.at(-1)];
  if (!newest || !oldest) return {};
  const from = Math.min(oldest.createdAt, oldest.startedAt ?? oldest.createdAt);
  // A snapshot may be made just after the end.
  return { from, ...(newest.endedAt !== null && { to: Math.max(newest.endedAt, from) + 1000 }) };
}

export function totalsOf({ buckets: parts }: Pick<Tape, "buckets">): Totals {
  const totals = { commands: 0, allowed: 0, refused: 0 };
  for (const { commands, egress } of parts) {
    totals.commands += commands.started;
    totals.allowed += egress.allowed;
    totals.refused += egress.refused;
  }
  return totals;
}

interface CommandList {
  commands: readonly Command[];
  isWhole: boolean;
}

/** of sessions that have ended */
const ended = new Map<string, CommandList>();
const mostEnded = 200;

async function commandsOf({ id, endedAt }: Session, signal: AbortSignal): Promise<CommandList> {
  const known = ended.get(id);
  if (known) return known;
  const query = { limit: mostCommands };
  const { commands, next } = await client.call("listCommands", { params: { session: id }, query, signal });
  const list = { commands, isWhole: next === null };
  // How a command ended may be known a moment after its session is over.
  if (endedAt !== null && commands.every((each) => each.endedAt !== null)) ended.set(id, list);
  const [oldest = ""] = ended.keys();
  if (ended.size > mostEnded) ended.delete(oldest);
  return list;
}
