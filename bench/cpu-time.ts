/** The processor time of a process, which other programs of a busy machine change less than they change durations. */

import { readdirSync, readFileSync } from "node:fs";

/** of all its threads, in ms */
export function cpuTime(pid: number): number {
  return readdirSync(`/proc/${pid}/task`)
    .map((thread) => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]) / 1e6)
    .reduce((sum, time) => sum + time, 0);
}

/** of a process, its ended threads, and its children that have ended, in ms; the kernel counts in steps of 10 ms */
export function familyTime(pid: number): number {
  // The name, in parentheses, may have blanks in it.
  const [, , ...fields] = statOf(pid).replace(/^.*\)/s, "x").split(" ");
  const [own, system, children, theirSystem] = fields.slice(10, 14).map(Number);
  return 10 * ((own ?? 0) + (system ?? 0) + (children ?? 0) + (theirSystem ?? 0));
}

/** the children of this process whose command line has this word */
export function childrenWith(word: string): number[] {
  const all = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const isOurs = (pid: string) => statOf(Number(pid)).replace(/^.*\)/s, "").split(" ")[2] === String(process.pid);
  const words = (pid: string) => readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  return all.filter((pid) => isOurs(pid) && words(pid).includes(word)).map(Number);
}

/** empty for a process that has ended meanwhile */
function statOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return "";
  }
}
