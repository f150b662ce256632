/** Which command a process inside a machine belongs to, by what the kernel says of it and of its ancestors. */

import type { Ancestry } from "../../../protocols/egress-control.ts";

/** A command as far as its processes are told by it. */
export interface Leader {
  id: string;
  /** 0 while it is being started */
  pid: number;
  exit?: { exitedAt: number } | undefined;
}

/**
 * A command's process leads a session, whose number is its own: whoever is in it is the command's, and so is whoever
 * descends from that. While the command runs nobody else can have the number. Afterwards it is free once the session is
 * empty, so that only those count who were there before the end (a start is known to 10 ms, and given too early).
 * One that has made itself independent, with a session of its own and no living parent, is nobody's.
 */
export function commandOf(ancestry: Ancestry, running: Iterable<Leader>, ended: Iterable<Leader>): string | undefined {
  const alive = byPid(running);
  let over: Map<number, Leader> | undefined;
  for (const [pid, session, startedAt] of ancestry) {
    const found = alive.get(session) ?? alive.get(pid);
    if (found) return found.id;
    // Most are of commands that run: the many that have ended are seldom looked at.
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
