/** What a runtime has on the host, found by its data directory: processes, cgroups, mounts and loop devices. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { places } from "../../src/runtime/linux/machines/plan.ts";

/** the launcher, the network's processes and all their descendants */
export function processesOf(dataDir: string): number[] {
  const instance = places(dataDir, "/").run;
  const all = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
  const own = new Set(all.filter((pid) => read(`/proc/${pid}/cmdline`).includes(`${instance}\0`)));
  const parents = new Map(all.map((pid) => [pid, parentOf(pid)]));
  const descends = (pid: number | undefined): boolean =>
    pid !== undefined && (own.has(pid) || descends(parents.get(pid)));
  return all.filter((pid) => isAlive(pid) && descends(pid));
}

export function cgroupsOf(dataDir: string): string[] {
  const parent = places(dataDir, "/").cgroupParent;
  return readdirSync("/sys/fs/cgroup")
    .map((tree) => join("/sys/fs/cgroup", tree))
    .concat("/sys/fs/cgroup")
    .filter((tree) => entries(tree).includes(parent))
    .map((tree) => join(tree, parent));
}

export function mountsOf(dataDir: string): string[] {
  return read("/proc/self/mountinfo")
    .split("\n")
    .filter((line) => line.includes(dataDir) || line.includes(places(dataDir, "/").run));
}

/** loop devices whose images are in the data directory */
export function loopDevicesOn(dataDir: string): string[] {
  return entries("/sys/block").filter((name) => read(`/sys/block/${name}/loop/backing_file`).includes(dataDir));
}

export function isAlive(pid: number): boolean {
  const state = /^State:\s+(\S)/m.exec(read(`/proc/${pid}/status`))?.[1];
  return state !== undefined && state !== "Z" && state !== "X";
}

export function parentOf(pid: number): number | undefined {
  const parent = Number(/^PPid:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0);
  return parent > 0 ? parent : undefined;
}

export function entries(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

export function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
