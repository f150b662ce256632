/** Rows of several sessions, newest first: each session's rows come after a line that names the session. */

import type { ComponentChildren } from "preact";
import type { History } from "../data/history.ts";
import { html } from "../html.ts";
import { clock, counted, date } from "../text.ts";

interface OfSessionsProps<T> {
  items: readonly T[];
  /** id of the session that the sandbox has now; its rows alone need no name */
  current: string;
  history: History | undefined;
  row: (item: T) => ComponentChildren;
}

export function OfSessions<T extends { sessionId: string }>({ items, current, history, row }: OfSessionsProps<T>) {
  const hasOthers = items.some(({ sessionId }) => sessionId !== current);
  return items.flatMap((item, at) => {
    const { sessionId } = item;
    const isFirst = hasOthers && sessionId !== items[at - 1]?.sessionId;
    return isFirst ? [html`<${Name} key=${sessionId} id=${sessionId} history=${history} />`, row(item)] : [row(item)];
  });
}

function Name({ id, history }: { id: string; history: History | undefined }) {
  const session = history?.sessions.find((each) => each.id === id);
  const times = session && [
    date(session.startedAt ?? session.createdAt),
    session.endedAt === null ? "now" : clock(session.endedAt),
  ];
  return html`<li class="of">session <span class="mono">${id.slice(0, 14)}…</span> ${times?.join(" – ")}</li>`;
}

/** says that logs of so many sessions are gone, and which setting decides about that */
export function LostLogs({ count }: { count: number }) {
  if (count === 0) return null;
  return html`<p class="note">The egress log of ${counted(count, "session")} is gone: the daemon deletes logs and outputs a while after the end of a session, 7 days by default (<span class="mono">SANDKEEP_OUTPUT_RETENTION</span>).</p>`;
}

/** when nothing of a kind is there */
export function whenWords(isStretch: boolean, history: History | undefined): string {
  if (isStretch) return "in this time";
  return history?.hasOlder ? "in the sessions that the tape shows" : "yet";
}
