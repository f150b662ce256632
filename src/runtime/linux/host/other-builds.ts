/**
 * Finds processes of ours that outlived an upgrade: a launcher, with the processes of the network that it has forked, whose
 * program is not the one that this daemon would start, and an egress process that began before its code was changed.
 *
 *   launcher ── netd ── keeper ── egress process
 *
 * The keeper holds the folders of the code that it was started with, so a new egress process needs a new keeper; the
 * launcher starts netd again, and netd its keeper, from the paths that the launcher was started with.
 */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { places } from "../machines/plan.ts";
import { realCommand } from "../network/egress-view.ts";
import { kernelText, startTick } from "./kernel-file.ts";

export interface OwnProcesses {
  launcherPid: number;
  /** the guest binary that a launcher would be started from now */
  guest: string;
  /** command line of the egress process: Node, and the module that it runs */
  egress: string[];
}

interface Installed extends Omit<OwnProcesses, "launcherPid"> {
  dataDir: string;
}

export interface OtherBuilds {
  /** a launcher of another build */
  launcher?: number;
  /** an egress process that is older than its program */
  egress?: number;
  /** the process whose end replaces the egress process; undefined where that takes another launcher */
  netd?: number;
}

export function otherBuilds({ launcherPid, guest, egress }: OwnProcesses): OtherBuilds {
  const netd = childNamed(launcherPid, "sandkeep-netd");
  const keeper = netd && childNamed(netd, "sandkeep-keeper");
  const old = keeper && childrenOf(keeper)[0];
  // Nothing is known of one that is gone or, to other users than root, of any.
  const running = digestOf(`/proc/${launcherPid}/exe`);
  const isOther = running !== undefined && running !== digestOf(guest);
  const startsOurs = isPart(egress, argumentsOf(launcherPid));
  const isOlder = old !== undefined && (!startsOurs || startedAt(old) < changedAt(egress));
  return {
    ...(isOther && { launcher: launcherPid }),
    ...(isOlder && { egress: old }),
    ...(isOlder && startsOurs && netd !== undefined && { netd }),
  };
}

/** a sentence for each */
export function sentences({ launcher, egress, netd }: OtherBuilds): string[] {
  const goesOn = "keeps running; it is replaced when the last sandbox ends";
  const how = netd === undefined ? goesOn : `keeps running; "sandkeep upgrade" replaces it`;
  return [
    ...(launcher === undefined ? [] : [`The launcher (process ${launcher}) is of another build and ${goesOn}`]),
    ...(egress === undefined ? [] : [`The egress process (process ${egress}) is older than its program and ${how}`]),
  ];
}

/** of the launcher that serves a data directory, whether or not a daemon runs; a sentence for each */
export function installedBuilds({ dataDir, guest, egress }: Installed): string[] {
  const launcherPid = launcherOf(dataDir);
  return launcherPid === undefined ? [] : sentences(otherBuilds({ launcherPid, guest, egress: realCommand(egress) }));
}

/** undefined where there is none */
function launcherOf(dataDir: string): number | undefined {
  const instance = basename(places(dataDir, "/").run);
  const isOfIt = (pid: string | number) => {
    const [, verb, run = ""] = argumentsOf(pid);
    return verb === "launch" && basename(run) === instance;
  };
  // What it has forked has its command line.
  const parent = (pid: string) => /^PPid:\s+(\d+)$/m.exec(kernelText(`/proc/${pid}/status`))?.[1] ?? 0;
  const found = readdirSync("/proc").find((name) => /^\d+$/.test(name) && isOfIt(name) && !isOfIt(parent(name)));
  return found === undefined ? undefined : Number(found);
}

/** undefined where a process or a file is gone */
export function digestOf(path: string): string | undefined {
  try {
    return createHash("sha256").update(readFileSync(path)).digest("hex");
  } catch {
    return undefined;
  }
}

/** when a file of the egress process's own code was last put in place, in ms since 1970 */
export function changedAt(egress: string[]): number {
  const folder = dirname(egress.at(-1) ?? "");
  try {
    const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
    return Math.max(...files.map((name) => statSync(join(folder, name)).ctimeMs));
  } catch {
    return 0;
  }
}

function childNamed(pid: number, name: string): number | undefined {
  return childrenOf(pid).find((child) => kernelText(`/proc/${child}/comm`).trim() === name);
}

function childrenOf(pid: number): number[] {
  return kernelText(`/proc/${pid}/task/${pid}/children`).trim().split(" ").filter(Boolean).map(Number);
}

function argumentsOf(pid: string | number): string[] {
  return kernelText(`/proc/${pid}/cmdline`).split("\0");
}

/** whether these words are there one after the other */
function isPart(words: string[], all: string[]): boolean {
  return `\0${all.join("\0")}\0`.includes(`\0${words.join("\0")}\0`);
}

/** ms since 1970 */
function startedAt(pid: number): number {
  // A process's folder in /proc is as old as the process, to the second; its start in ticks since boot is exact.
  const ticks = Number(startTick(pid));
  const boot = Number(/^btime (\d+)$/m.exec(kernelText("/proc/stat"))?.[1]);
  return (boot + 1) * 1000 + ticks * 10;
}
