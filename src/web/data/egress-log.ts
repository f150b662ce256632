/** The newest lines of a session's egress log. Lines that were read once are kept, so that each read asks only for new ones. */

import type { Output } from "../../client/types.ts";
import { client } from "../session.ts";

export type EgressLine = Output<"readEgressLog">["events"][number];

export interface EgressLog {
  /** oldest first */
  lines: readonly EgressLine[];
  bytesIn: number;
  bytesOut: number;
}

const mostLines = 1000;

/** of the session that was read last */
let kept = { session: "", after: 0, log: empty() };
let reading: { session: string; log: Promise<EgressLog> } | undefined;

/** several views that ask at the same time share one read */
export function readEgress(session: string): Promise<EgressLog> {
  if (reading?.session !== session) {
    const log = readOn(session).finally(() => {
      if (reading?.log === log) reading = undefined;
    });
    reading = { session, log };
  }
  return reading.log;
}

async function readOn(session: string): Promise<EgressLog> {
  let { after, log } = kept.session === session ? kept : { after: 0, log: empty() };
  for (;;) {
    const query = { after, limit: 1000 };
    const page = await client.call("readEgressLog", { params: { session }, query });
    log = { lines: [...log.lines, ...page.events].slice(-mostLines), ...page.totals.payload };
    after = page.next;
    kept = { session, after, log };
    if (!page.more) return log;
  }
}

function empty(): EgressLog {
  return { lines: [], bytesIn: 0, bytesOut: 0 };
}
