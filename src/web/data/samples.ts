/** What sessions used over time. Samples that were read once are kept, so that each read asks only for newer ones. */

import type { Output } from "../../client/types.ts";
import { client } from "../session.ts";

export type Sample = Output<"listUsageSamples">["samples"][number];

const mostSeries = 50;

/** by session, oldest first; the series that was begun first gives way */
const kept = new Map<string, readonly Sample[]>();

export async function readSamples(session: string, signal: AbortSignal): Promise<readonly Sample[]> {
  const last = lastOf(session);
  const query = last === undefined ? {} : { from: last + 1 };
  const { samples } = await client.call("listUsageSamples", { params: { session }, query, signal });
  // Another view may have read some of them meanwhile.
  const newest = lastOf(session) ?? Number.NEGATIVE_INFINITY;
  const all = [...(kept.get(session) ?? []), ...samples.filter(({ at }) => at > newest)];
  kept.set(session, all);
  const [oldest = ""] = kept.keys();
  if (kept.size > mostSeries) kept.delete(oldest);
  return all;
}

function lastOf(session: string): number | undefined {
  return kept.get(session)?.at(-1)?.at;
}
