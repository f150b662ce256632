/** The processor time of a process, which other programs of a busy machine change less than they change durations. */

import { readdirSync, readFileSync } from "node:fs";

/** of all its threads, in ms */
export function cpuTime(pid: number): number {
  return readdirSync(`/proc/${pid}/task`)
    .map((thread) => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]) / 1e6)
    .reduce((sum, time) => sum + time, 0);
}
