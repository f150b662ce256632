/**
 * Control groups, the same for cgroup v1, v2 and the mix of both: which folders a machine has, how limits are written
 * and use is read. Where a v2 tree exists it is used for killing, freezing and CPU time, with or without controllers.
 */

import { readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { codeOf } from "../../../base/error-code.ts";
import { makeFolderSync } from "../../../base/files/folders.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { Limits } from "../../../core/ports/runtime.ts";
import { kernelFact, kernelText } from "./kernel-file.ts";

/** where this host's control groups are */
export interface CgroupHost {
  version: 1 | 2;
  /** mount point of the v2 tree, if there is one */
  unified?: string;
  /** mount points of the controllers; on v2 all are the v2 tree */
  cpu: string;
  memory: string;
  pids: string;
  /** v1 only, and only needed where there is no v2 tree */
  cpuacct?: string;
  freezer?: string;
}

/** one machine's folders, in the same places */
export type MachineCgroup = CgroupHost;

export interface CgroupUsage {
  /** in ms */
  cpuTime: number;
  memory: number;
  cache: number;
  peakMemory: number;
  processes: number;
  outOfMemoryKills: number;
}

const period = 100_000;
const controllers = ["cpu", "memory", "pids"] as const;
/** v1's limit of what TCP holds, and UDP too; its name is older than that */
const socketMemory = "memory.kmem.tcp.limit_in_bytes";

/** reads what is mounted; throws where a controller that limits need is missing */
export function findCgroups(mountinfo: string, unifiedControllers: (mountPoint: string) => string): CgroupHost {
  const mounts = parseMounts(mountinfo);
  const unified = mounts.find((mount) => mount.type === "cgroup2")?.point;
  if (unified !== undefined) {
    const offered = unifiedControllers(unified).split(/\s+/);
    if (controllers.every((name) => offered.includes(name))) {
      return { version: 2, unified, cpu: unified, memory: unified, pids: unified };
    }
  }
  const v1 = (name: string) => mounts.find((mount) => mount.type === "cgroup" && mount.options.includes(name))?.point;
  const [cpu, memory, pids] = controllers.map(v1);
  if (cpu === undefined || memory === undefined || pids === undefined) {
    const missing = controllers.filter((name) => v1(name) === undefined).join(", ");
    throw new SandkeepError("unsupported", `Cannot limit sandboxes: this host has no cgroup controller for ${missing}`);
  }
  const freezer = v1("freezer");
  const cpuacct = v1("cpuacct");
  return {
    version: 1,
    cpu,
    memory,
    pids,
    ...(unified !== undefined
      ? { unified }
      : { ...(cpuacct !== undefined && { cpuacct }), ...(freezer !== undefined && { freezer }) }),
  };
}

export function thisHostsCgroups(): CgroupHost {
  return findCgroups(readFileSync("/proc/self/mountinfo", "utf8"), (point) =>
    readFileSync(join(point, "cgroup.controllers"), "utf8"),
  );
}

/** the folders of a machine below the runtime's own folder `parent` */
export function machineCgroup(host: CgroupHost, parent: string, name: string): MachineCgroup {
  const below = (mount: string) => join(mount, parent, name);
  return {
    version: host.version,
    cpu: below(host.cpu),
    memory: below(host.memory),
    pids: below(host.pids),
    ...(host.unified !== undefined && { unified: below(host.unified) }),
    ...(host.cpuacct !== undefined && { cpuacct: below(host.cpuacct) }),
    ...(host.freezer !== undefined && { freezer: below(host.freezer) }),
  };
}

/** every folder once */
export function foldersOf(cgroup: MachineCgroup): string[] {
  const { unified, cpu, memory, pids, cpuacct, freezer } = cgroup;
  return [...new Set([unified, cpu, memory, pids, cpuacct, freezer].filter((path) => path !== undefined))];
}

/** the v1 folders, which a process has to join one by one */
export function joinedFolders(cgroup: MachineCgroup): string[] {
  return foldersOf(cgroup).filter((path) => path !== cgroup.unified);
}

/** the file in which the kernel counts the processes it killed for memory */
export function memoryEvents(cgroup: MachineCgroup): string {
  return join(cgroup.memory, cgroup.version === 2 ? "memory.events" : "memory.oom_control");
}

/** what to write where; pure, so that both versions can be checked on any host */
export function limitWrites(cgroup: MachineCgroup, limits: Partial<Limits>): [file: string, value: string][] {
  const writes: [string, string][] = [];
  const { vcpus, memory, pids } = limits;
  if (cgroup.version === 2) {
    if (vcpus !== undefined) writes.push([join(cgroup.cpu, "cpu.max"), `${quota(vcpus)} ${period}`]);
    if (memory !== undefined) {
      writes.push([join(cgroup.memory, "memory.max"), `${memory}`]);
      writes.push([join(cgroup.memory, "memory.swap.max"), "0"]);
    }
  } else {
    if (vcpus !== undefined) writes.push([join(cgroup.cpu, "cpu.cfs_quota_us"), `${quota(vcpus)}`]);
    if (memory !== undefined) {
      writes.push([join(cgroup.memory, "memory.limit_in_bytes"), `${memory}`]);
      writes.push([join(cgroup.memory, "memory.memsw.limit_in_bytes"), `${memory}`]);
      writes.push([join(cgroup.memory, socketMemory), `${socketBytes(memory)}`]);
    }
  }
  if (pids !== undefined) writes.push([join(cgroup.pids, "pids.max"), `${pids}`]);
  return writes;
}

/** what TCP and UDP may hold in buffers: v1 does not count it as memory; v2 does, and needs no limit of its own */
function socketBytes(memory: number): number {
  return Math.max(8 << 20, Math.floor(memory / 16));
}

/** processes and threads that all machines together may have, so that the host always has numbers left for its own */
export function allProcesses(pidMax: number, threadsMax: number): number {
  const most = Math.min(pidMax, threadsMax);
  return most - Math.max(1024, Math.floor(most / 8));
}

/** makes the runtime's own folder in every tree and, on v2, hands the controllers down to it */
export function makeParent(host: CgroupHost, parent: string): string[] {
  const mounts = [host.unified, host.cpu, host.memory, host.pids, host.cpuacct, host.freezer];
  const folders = [...new Set(mounts.filter((mount) => mount !== undefined))].map((mount) => join(mount, parent));
  for (const folder of folders) makeFolderSync(folder);
  const most = allProcesses(number("/proc/sys/kernel/pid_max"), number("/proc/sys/kernel/threads-max"));
  const limitTogether = () => writeFileSync(join(host.pids, parent, "pids.max"), `${most}`);
  if (host.version === 1) limitTogether();
  if (host.version === 2 && host.unified !== undefined) {
    for (const folder of [host.unified, join(host.unified, parent)]) {
      writeFileSync(join(folder, "cgroup.subtree_control"), controllers.map((name) => `+${name}`).join(" "));
    }
    limitTogether();
  }
  return folders;
}

export function makeCgroup(cgroup: MachineCgroup): void {
  for (const folder of foldersOf(cgroup)) makeFolderSync(folder);
}

export function setLimits(cgroup: MachineCgroup, limits: Partial<Limits>): void {
  for (const [file, value] of limitWrites(cgroup, limits)) {
    try {
      writeFileSync(file, value);
    } catch (cause) {
      // memory and swap together can only be limited where the kernel counts swap, and v1 wants
      // memory.limit <= memory.memsw.limit at every moment, also on the way up
      if (file.includes("swap") || file.includes("memsw")) continue;
      // not every kernel counts it, and one in use may be above the limit
      if (file.endsWith(socketMemory)) continue;
      if (file.endsWith("memory.limit_in_bytes") && raiseBoth(cgroup, value)) continue;
      if (codeOf(cause) === "EBUSY") {
        throw new SandkeepError("conflict", `Cannot limit memory to ${value} bytes: more is in use`, { cause });
      }
      throw new SandkeepError("internal", `Cannot limit the machine: the kernel refuses ${value} for ${file}`, {
        cause,
      });
    }
  }
}

/** v1, when the limit grows: first memory with swap, then memory alone */
function raiseBoth(cgroup: MachineCgroup, value: string): boolean {
  try {
    writeFileSync(join(cgroup.memory, "memory.memsw.limit_in_bytes"), value);
    writeFileSync(join(cgroup.memory, "memory.limit_in_bytes"), value);
    return true;
  } catch {
    return false;
  }
}

/** a pid may have gone to another process since; a machine's cgroup cannot */
export function isInCgroup(pid: number, cgroup: MachineCgroup): boolean {
  // the last two folders are the runtime's own and the machine's, in every tree
  const path = cgroup.memory.split("/").slice(-2).join("/");
  return kernelFact(`/proc/${pid}/cgroup`)
    .split("\n")
    .some((line) => line.endsWith(`/${path}`));
}

/** path of the list of its processes */
export function processesFile(cgroup: MachineCgroup): string {
  return join(cgroup.pids, "cgroup.procs");
}

export function processesIn(cgroup: MachineCgroup): number[] {
  return kernelText(processesFile(cgroup))
    .trim()
    .split("\n")
    .map(Number)
    .filter((pid) => pid > 0);
}

/** ends every process of a machine that no launcher knows any more, as far as this host can */
export function killProcesses({ unified, freezer }: MachineCgroup): void {
  if (unified === undefined && freezer === undefined) return;
  try {
    if (unified !== undefined) writeFileSync(join(unified, "cgroup.kill"), "1");
    // On v1 a frozen process ends only once it is thawed.
    else if (freezer !== undefined) writeFileSync(join(freezer, "freezer.state"), "THAWED");
  } catch (error) {
    // a folder that is gone has no processes
    if (codeOf(error) !== "ENOENT") throw error;
  }
}

/** counters grow while the machine lives; a missing folder reads as zero */
export function readUsage(cgroup: MachineCgroup): CgroupUsage {
  const memory = (name: string) => number(join(cgroup.memory, name));
  return {
    cpuTime: cpuTime(cgroup),
    memory: memory(cgroup.version === 2 ? "memory.current" : "memory.usage_in_bytes"),
    cache: field(kernelText(join(cgroup.memory, "memory.stat")), cgroup.version === 2 ? "file" : "cache"),
    peakMemory: memory(cgroup.version === 2 ? "memory.peak" : "memory.max_usage_in_bytes"),
    processes: number(join(cgroup.pids, "pids.current")),
    outOfMemoryKills: field(kernelText(memoryEvents(cgroup)), "oom_kill"),
  };
}

/** removes the folders; false while a process is still leaving */
export function removeCgroup(folders: string[]): boolean {
  let gone = true;
  for (const folder of folders) {
    try {
      rmdirSync(folder);
    } catch (error) {
      if (codeOf(error) !== "ENOENT") gone = false;
    }
  }
  return gone;
}

/** folders below the runtime's own ones that exist now */
export function existingCgroups(parents: string[]): string[] {
  return parents.flatMap((parent) => {
    try {
      return readdirSync(parent, { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map((entry) => join(parent, entry.name));
    } catch {
      return [];
    }
  });
}

function cpuTime(cgroup: MachineCgroup): number {
  if (cgroup.unified !== undefined) return field(kernelText(join(cgroup.unified, "cpu.stat")), "usage_usec") / 1000;
  return cgroup.cpuacct === undefined ? 0 : number(join(cgroup.cpuacct, "cpuacct.usage")) / 1e6;
}

function quota(vcpus: number): number {
  return Math.max(1000, Math.round(vcpus * period));
}

function number(file: string): number {
  return Number.parseInt(kernelText(file), 10) || 0;
}

function field(text: string, name: string): number {
  const line = text.split("\n").find((candidate) => candidate.startsWith(`${name} `));
  return line === undefined ? 0 : Number(line.slice(name.length + 1)) || 0;
}

interface MountEntry {
  point: string;
  type: string;
  options: string[];
}

/** the fields of /proc/self/mountinfo that matter here */
function parseMounts(mountinfo: string): MountEntry[] {
  return mountinfo.split("\n").flatMap((line) => {
    const [left, right] = line.split(" - ");
    const point = left?.split(" ")[4];
    const [type, , options] = right?.split(" ") ?? [];
    return point === undefined || type === undefined ? [] : [{ point, type, options: (options ?? "").split(",") }];
  });
}
