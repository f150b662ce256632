/** What sessions used over time. Samples that were read once are kept, so that each read asks only for newer ones. */

import type { Output } from "../../client/types.ts";
import { client } from "../session.ts";
import type { Session } from "./history.ts";

export type Sample = Output<"listUsageSamples">["samples"][number];

const mostSeries = 50;

interface Series {
  /** oldest first */
  samples: readonly Sample[];
  /** whether the session had ended when they were read */
  isWhole: boolean;
}

/** by session; the series that was begun first gives way */
const kept = new Map<string, Series>();

export async function readSamples(
  { id, endedAt }: Pick<Session, "id" | "endedAt">,
  signal: AbortSignal,
): Promise<readonly Sample[]> {
  const known = kept.get(id);
  if (known?.isWhole) return known.samples;
  const last = known?.samples.at(-1)?.at;
  const query = last === undefined ? {} : { from: last + 1 };
  const { samples } = await client.call("listUsageSamples", { params: { session: id }, query, signal });
  // Another view may have read some of them meanwhile.
  const before = kept.get(id)?.samples ?? [];
  const newest = before.at(-1)?.at ?? Number.NEGATIVE_INFINITY;
  const all = [...before, ...samples.filter(({ at }) => at > newest)];
  kept.set(id, { samples: all, isWhole: endedAt !== null });
  const [oldest = ""] = kept.keys();
  if (kept.size > mostSeries) kept.delete(oldest);
  return all;
}
