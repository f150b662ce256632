/** Finds the command that a process inside a machine belongs to, from the kernel's facts about it and its ancestors. */

import type { Ancestry } from "../../../protocols/egress-control.ts";

/** The facts about a command that identify its processes. */
export interface Leader {
  id: string;
  /** 0 while it is being started */
  pid: number;
  exit?: { exitedAt: number } | undefined;
}

/**
 * A command's process leads a session with its own pid as number: every process in that session belongs to the command, and
 * so do their descendants. While the command runs, no other session can have the number. Afterwards the number is free once
 * the session is empty, so only processes count that started before the end (a start is known to 10 ms, rounded down).
 * A process with a session of its own and no living parent belongs to no command.
 */
export function commandOf(ancestry: Ancestry, running: Iterable<Leader>, ended: Iterable<Leader>): string | undefined {
  const alive = byPid(running);
  let over: Map<number, Leader> | undefined;
  for (const [pid, session, startedAt] of ancestry) {
    const found = alive.get(session) ?? alive.get(pid);
    if (found) return found.id;
    // Most processes belong to running commands, so the many ended ones are searched last.
    over ??= byPid(ended);
    const before = over.get(session);
    if (before && startedAt <= (before.exit?.exitedAt ?? 0)) return before.id;
  }
  return undefined;
}

/** of those with the same number the last counts */
function byPid(leaders: Iterable<Leader>): Map<number, Leader> {
  const found = new Map<number, Leader>();
  for (const leader of leaders) if (leader.pid > 0) found.set(leader.pid, leader);
  return found;
}
