/** What the host has and uses, for visitors that may know it: read every few seconds while somebody looks. */

import { batch, signal } from "@preact/signals";
import type { Output } from "../../client/types.ts";
import { client, isAdmin } from "../session.ts";

const every = 5000;
/** ten minutes */
const mostSamples = 120;

/** the last answer; undefined before the first one, and for a key that may not ask */
export const capacity = signal<Output<"getCapacity"> | undefined>(undefined);
/** busy processors, oldest first, since the dashboard was opened */
export const busyProcessors = signal<readonly number[]>([]);

/** returns how to stop */
export function watchCapacity(): () => void {
  const ask = async () => {
    if (document.hidden || !isAdmin()) return;
    try {
      const answer = await client.call("getCapacity");
      batch(() => {
        capacity.value = answer;
        busyProcessors.value = [...busyProcessors.value, answer.processors.busy].slice(-mostSamples);
      });
    } catch {
      // The numbers stay; the bar at the top says that there is no answer.
    }
  };
  const ticking = setInterval(() => void ask(), every);
  void ask();
  return () => {
    clearInterval(ticking);
    capacity.value = undefined;
    busyProcessors.value = [];
  };
}
