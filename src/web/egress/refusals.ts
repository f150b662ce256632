/** Refused connections of the whole project, by sandbox: read now and then while somebody looks. */

import { computed, signal } from "@preact/signals";
import type { Output } from "../../client/types.ts";
import { client } from "../session.ts";

export type ProjectLine = Output<"listEgress">["events"][number];

/** ms between two reads */
const every = 10_000;
const most = 500;

/** the newest, newest first */
const newest = signal<readonly ProjectLine[]>([]);

/** how often each sandbox was refused, as far as the newest lines say */
export const refusals = computed((): ReadonlyMap<string, number> => {
  const found = new Map<string, number>();
  for (const { sandbox, count } of newest.value) {
    found.set(sandbox, (found.get(sandbox) ?? 0) + (typeof count === "number" ? Math.max(1, count) : 1));
  }
  return found;
});

/** returns how to stop */
export function watchRefusals(): () => void {
  const ask = async () => {
    if (document.hidden) return;
    try {
      const { events } = await client.call("listEgress", { query: { refused: true, limit: most } });
      // Views are drawn again only when something has changed.
      const [first] = newest.peek();
      if (events.length !== newest.peek().length || events[0]?.at !== first?.at) newest.value = events;
    } catch {
      // The numbers stay; the bar at the top says that there is no answer.
    }
  };
  const ticking = setInterval(() => void ask(), every);
  void ask();
  return () => {
    clearInterval(ticking);
    newest.value = [];
  };
}
