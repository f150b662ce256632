/**
 * The newest lines of several egress logs, by time. A log has no line that is newer than its last change, so logs are
 * read in the order of their last changes, and only until no other can have a line of the page.
 */

import type { EgressLogLine } from "../../protocols/egress-log.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Session } from "../model/sandbox.ts";
import type { EgressJournal } from "../ports/runtime.ts";

/** A line, and the session that it is of. */
export interface SessionEgressLine {
  session: Session;
  line: EgressLogLine;
}

export interface NewestEgressQuery {
  limit: number;
  /** `next` of the page before */
  cursor?: string | undefined;
  /** whether only refused connections are wanted */
  refused?: boolean | undefined;
}

/** A place between two lines of such a list. */
interface Place {
  at: number;
  session: string;
  id: number;
}

/** how much older than its last line a file may look, in ms: the kernel's times of files are coarse */
const slack = 100;

export async function newestEgress(
  logs: readonly { session: Session; journal: EgressJournal }[],
  { limit, cursor, refused = false }: NewestEgressQuery,
): Promise<{ items: SessionEgressLine[]; next?: string }> {
  const before = cursor === undefined ? undefined : placeOf(cursor);
  const changed = await Promise.all(logs.map(async (log) => ({ ...log, at: await log.journal.changedAt() })));
  const byChange = changed.flatMap(({ at, ...log }) => (at === undefined ? [] : [{ ...log, at: at + slack }]));
  let found: SessionEgressLine[] = [];
  for (const { session, journal, at } of byChange.sort((one, other) => other.at - one.at)) {
    const last = found[limit];
    if (last && last.line.at > at) break;
    const isWanted = ({ at: then, id }: EgressLogLine) =>
      before === undefined || compare({ at: then, session: session.id, id }, before) < 0;
    const lines = await journal.newest({ limit: limit + 1, refused, isWanted });
    found = [...found, ...lines.map((line) => ({ session, line }))].sort((one, other) =>
      compare(placeAt(other), placeAt(one)),
    );
    found = found.slice(0, limit + 1);
  }
  const items = found.slice(0, limit);
  const end = items.at(-1);
  return { items, ...(found.length > limit && end && { next: cursorAt(placeAt(end)) }) };
}

function compare(one: Place, other: Place): number {
  if (one.at !== other.at) return one.at - other.at;
  if (one.session !== other.session) return one.session < other.session ? -1 : 1;
  return one.id - other.id;
}

function placeAt({ session, line: { at, id } }: SessionEgressLine): Place {
  return { at, session: session.id, id };
}

function cursorAt({ at, session, id }: Place): string {
  return `${at}.${session}.${id}`;
}

function placeOf(cursor: string): Place {
  const [, at, session = "", id] = /^(\d{1,15})\.(\w{1,64})\.(\d{1,15})$/.exec(cursor) ?? [];
  if (at === undefined) throw new SandkeepError("invalid", "Invalid request: `cursor` is not one of this list.");
  return { at: Number(at), session, id: Number(id) };
}
