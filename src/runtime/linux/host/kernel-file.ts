/** Reads files of the kernel in /proc, /sys and cgroups, which disappear with what they describe. */

import { readFileSync } from "node:fs";
import { codeOf } from "../../../base/error-code.ts";

/** the text of the file, empty if it is gone or cannot be read */
export function kernelText(path: string): string {
  try {
    return kernelFact(path);
  } catch {
    return "";
  }
}

/**
 * the same for decisions that cannot be undone: throws if this process has no descriptor or memory left to read it, as it
 * then only seems to be gone
 */
export function kernelFact(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (isOwnLimit(error)) throw error;
    return "";
  }
}

/** whether this process lacked something: that says nothing about the file, or about the other end of a socket */
export function isOwnLimit(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ownLimits.has(codeOf(error) ?? "") || isOwnLimit(error.cause);
}

const ownLimits = new Set(["EMFILE", "ENFILE", "ENOMEM", "ENOBUFS"]);

/** the tick, since the host's boot, in which a process began; undefined when there is no such process */
export function startTick(pid: number): string | undefined {
  // The second field is the program's name in parentheses and may hold anything; the start is the 20th after it.
  const stat = kernelFact(`/proc/${pid}/stat`);
  return stat === "" ? undefined : stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
}
