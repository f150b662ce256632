/** When a session expires: counted from its start or from its last use. */

import type { Session } from "../model/sandbox.ts";

export type SessionTimes = Pick<Session, "lifetime" | "timeout" | "requestedAt"> & { startedAt?: number | undefined };

/**
 * when the session expires if it is last used at `usedAt`; undefined for never. Use extends it, but not beyond the
 * longest that any session may run: otherwise a program that never ends would keep its machine for ever
 */
export function expiryOf(session: SessionTimes, usedAt: number, longest: number): number | undefined {
  const { lifetime, timeout, startedAt = session.requestedAt } = session;
  if (lifetime === "unlimited") return undefined;
  return lifetime === "idle" ? Math.min(usedAt + timeout, startedAt + longest) : startedAt + timeout;
}
