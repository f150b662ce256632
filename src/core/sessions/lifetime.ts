/** When a session expires: counted from its start or from its last use. */

import type { Session } from "../model/sandbox.ts";

export type SessionTimes = Pick<Session, "lifetime" | "timeout" | "requestedAt"> & {
  startedAt?: number | undefined;
  resumedAt?: number | undefined;
};

/**
 * when the session expires if it is last used at `usedAt`; undefined for never. Use extends it, but not beyond the
 * longest that any session may run: otherwise a program that never ends would keep its machine for ever
 */
export function expiryOf(session: SessionTimes, usedAt: number, longest: number): number | undefined {
  const { lifetime, timeout } = session;
  const since = runsSince(session);
  if (lifetime === "unlimited") return undefined;
  return lifetime === "idle" ? Math.min(usedAt + timeout, since + longest) : since + timeout;
}

/** since when its timeout counts */
export function runsSince({ requestedAt, startedAt = requestedAt, resumedAt = startedAt }: SessionTimes): number {
  return resumedAt;
}

/** how long it has run until `at`, without its pauses */
export function ranFor(session: SessionTimes & Pick<Session, "pausedAt" | "pausedMs">, at: number): number {
  const { startedAt = session.requestedAt, pausedAt = at, pausedMs = 0 } = session;
  return Math.max(0, pausedAt - startedAt - pausedMs);
}
