/** Prints sessions and commands as version 1 does, where it differs from later versions. */

import type { Command, Session, SessionState } from "../../../core/model/sandbox.ts";
import * as wire from "../wire.ts";

/** `agent` is the client's user agent, such as "vercel/sandbox/1.0.2 (Node.js/…)" */
export function sandbox(it: Session, agent: string | undefined): object {
  return { ...wire.session(it), status: statusFor(it.state, agent) };
}

/** prints a session for the answer with its snapshot */
export function snapshotting(it: Session, agent: string | undefined): object {
  return { ...wire.snapshotting(it), status: statusFor("snapshotting", agent) };
}

export function command(it: Command): object {
  const { sessionId, ...rest } = wire.command(it);
  return { ...rest, sandboxId: sessionId };
}

/** states that the first SDKs do not know; they would refuse a whole list if one session in it had such a state */
const laterWords: Partial<Record<SessionState, { since: Version; before: SessionState }>> = {
  snapshotting: { since: [1, 1, 1], before: "stopping" },
  aborted: { since: [1, 5, 0], before: "failed" },
};

type Version = [major: number, minor: number, patch: number];

function statusFor(state: SessionState, agent = ""): SessionState {
  const word = laterWords[state];
  const [, ...numbers] = /(?:^| )vercel\/sandbox\/(\d+)\.(\d+)\.(\d+)/.exec(agent) ?? [];
  return word && isOlder(numbers.map(Number), word.since) ? word.before : wire.sessionStatus(state);
}

/** a client without a version counts as new */
function isOlder(version: number[], than: Version): boolean {
  const differing = than.findIndex((number, i) => version[i] !== number);
  return differing >= 0 && (version[differing] ?? Infinity) < (than[differing] ?? 0);
}
