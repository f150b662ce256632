/** Reads files of the kernel in /proc, /sys and cgroups, which disappear with what they describe. */

import { readFileSync } from "node:fs";

/** the text of the file, empty if it is gone */
export function kernelText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** the tick, since the host's boot, in which a process began; undefined when there is no such process */
export function startTick(pid: number): string | undefined {
  // The second field is the program's name in parentheses and may hold anything; the start is the 20th after it.
  const stat = kernelText(`/proc/${pid}/stat`);
  return stat === "" ? undefined : stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
}
