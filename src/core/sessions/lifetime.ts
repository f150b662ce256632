/** How a session's time is counted: when it is over, from its start or from its last use. */

import type { Session } from "../model/sandbox.ts";

export type Timed = Pick<Session, "lifetime" | "timeout" | "requestedAt"> & { startedAt?: number | undefined };

/**
 * when it is over if it is last used at a time; undefined when never. Use puts it off, but not beyond the longest that
 * any session may run: a program that never ends would keep its machine for ever
 */
export function expiryOf(session: Timed, usedAt: number, longest: number): number | undefined {
  const { lifetime, timeout, startedAt = session.requestedAt } = session;
  if (lifetime === "unlimited") return undefined;
  return lifetime === "idle" ? Math.min(usedAt + timeout, startedAt + longest) : startedAt + timeout;
}
