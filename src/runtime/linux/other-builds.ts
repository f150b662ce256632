/**
 * Finds processes of ours that outlived an upgrade: a launcher, with the processes of the network that it has forked, whose
 * program is not the one that this daemon would start, and an egress process that began before its code was changed.
 */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { kernelText, startTick } from "./kernel-file.ts";

export interface OwnProcesses {
  launcherPid: number;
  /** the guest binary that a launcher would be started from now */
  guest: string;
  /** command line of the egress process: Node, and the module that it runs */
  egress: string[];
}

export function isOtherLauncher({ launcherPid, guest }: Omit<OwnProcesses, "egress">): boolean {
  return digestOf(`/proc/${launcherPid}/exe`) !== digestOf(guest);
}

/** a sentence for each that is of another build */
export function otherBuilds({ launcherPid, guest, egress }: OwnProcesses): string[] {
  const found: string[] = [];
  if (isOtherLauncher({ launcherPid, guest })) {
    const until = "the first start of a daemon while no sandbox runs replaces it";
    found.push(`The launcher (process ${launcherPid}) is of another build than this daemon and goes on; ${until}`);
  }
  const pid = egressOf(launcherPid, egress);
  if (pid !== undefined && startedAt(pid) < changedAt(egress)) {
    const how = `it is replaced when it ends: run "kill ${pid}", which cuts off what sandboxes have open to the outside`;
    found.push(`The egress process (process ${pid}) is older than its program and goes on; ${how}`);
  }
  return found;
}

/** undefined where a process or a file is gone */
function digestOf(path: string): string | undefined {
  try {
    return createHash("sha256").update(readFileSync(path)).digest("hex");
  } catch {
    return undefined;
  }
}

/** the process below the launcher that runs this command */
function egressOf(launcherPid: number, egress: string[]): number | undefined {
  const main = egress.at(-1) ?? "";
  return descendants(launcherPid).find((pid) => kernelText(`/proc/${pid}/cmdline`).split("\0").includes(main));
}

function descendants(pid: number): number[] {
  const children = kernelText(`/proc/${pid}/task/${pid}/children`).trim().split(" ").filter(Boolean).map(Number);
  return children.flatMap((child) => [child, ...descendants(child)]);
}

/** ms since 1970 */
function startedAt(pid: number): number {
  // A process's folder in /proc is as old as the process, to the second; its start in ticks since boot is exact.
  const ticks = Number(startTick(pid));
  const boot = Number(/^btime (\d+)$/m.exec(kernelText("/proc/stat"))?.[1]);
  return (boot + 1) * 1000 + ticks * 10;
}

/** when a file of the egress process's own code was last put in place, in ms since 1970 */
function changedAt(egress: string[]): number {
  const folder = dirname(egress.at(-1) ?? "");
  try {
    const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
    return Math.max(...files.map((name) => statSync(join(folder, name)).ctimeMs));
  } catch {
    return 0;
  }
}
