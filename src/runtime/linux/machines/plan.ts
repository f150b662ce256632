/**
 * What it takes to make a machine, decided before anything is made: pure functions from what the caller wants and what
 * the host is to paths, limits and the launcher's orders. driver.ts carries plans out.
 */

import { createHash } from "node:crypto";
import { join } from "node:path";
import { definedOf } from "../../../base/defined.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import type {
  Limits,
  Machine,
  MachineMount,
  MachineNetwork,
  MachineSpec,
  NetworkMode,
} from "../../../core/ports/runtime.ts";
import type { HostResource } from "../../../protocols/ledger-line.ts";
import {
  type CgroupHost,
  foldersOf,
  joinedFolders,
  type MachineCgroup,
  machineCgroup,
  memoryEvents,
} from "../host/cgroup.ts";

/** the folders of one runtime; everything it makes lies below them */
export interface Places {
  /** the file system that holds layers and machines */
  store: string;
  machines: string;
  /** further copies of machines' records, outside the store */
  spares: string;
  /** on a tmpfs: sockets */
  run: string;
  sockets: string;
  /** where the egress process listens for policies */
  egress: string;
  /** what the operator says about the way out, for an egress process that starts when no daemon is there */
  egressSettings: string;
  /** the egress process's own folder, with one for the log of each machine */
  egressLogs: string;
  /** name of its folder in every cgroup tree */
  cgroupParent: string;
}

/** everything about one machine that does not depend on who uses it */
export interface MachinePlan {
  name: string;
  base: number;
  folder: string;
  volume: string;
  /** the folder of its egress log, which is the egress process's */
  egressLog: string;
  journal: string;
  socket: string;
  /** a further copy of its record */
  spare: string;
  cgroup: MachineCgroup;
  /** what the ledger must know before any of it is made */
  resources: HostResource[];
}

export interface PreparePlan {
  name: string;
  base: number;
  socket: string;
  journal: string;
  unified: string;
  cgroups: string[];
  memoryEvents: string;
  network: NetworkMode;
}

export interface ActivatePlan {
  name: string;
  /** directories, topmost first */
  layers: string[];
  volume: string;
  noNewPrivileges: boolean;
  /** processors that programs see; 0 for all */
  cpus: number;
  sharedMemory: number;
  mounts: MountPlan[];
}

/** a directory of the host that shows inside */
export interface MountPlan {
  /** absolute, inside */
  path: string;
  directory: string;
  readOnly: boolean;
}

export interface OrphanPlan {
  name: string;
  pid: number;
  base: number;
  socket: string;
  /** its cgroup v2 folder, or nothing */
  unified: string;
  network: NetworkMode;
}

/** ids that one sandbox has for itself */
export const idsPerMachine = 65_536;
/** above what users, subuids and systemd's containers are given by convention */
const firstBase = 0x7000_0000;
/** users and groups of the network processes on the host: no other process has them, and all machines' ids are above */
export const egressUser = firstBase - 2;
export const netdUser = firstBase - 3;
/** how many machines can have ids of their own at once */
export const slots = 0x7ff0;

export function places(dataDir: string, runRoot: string): Places {
  const instance = createHash("sha256").update(dataDir).digest("hex").slice(0, 12);
  const store = join(dataDir, "store");
  const run = join(runRoot, instance);
  return {
    store,
    machines: join(store, "machines"),
    spares: join(dataDir, "records"),
    run,
    sockets: join(run, "m"),
    egress: join(run, "egress.sock"),
    egressSettings: join(run, "egress.json"),
    egressLogs: join(store, "egress"),
    cgroupParent: `sandkeep-${instance}`,
  };
}

export function planMachine(at: Places, host: CgroupHost, name: string, slot: number): MachinePlan {
  const folder = join(at.machines, name);
  const cgroup = machineCgroup(host, at.cgroupParent, name);
  const socket = join(at.sockets, `${name}.sock`);
  return {
    name,
    base: firstBase + (slot % slots) * idsPerMachine,
    folder,
    volume: join(folder, "volume"),
    egressLog: join(at.egressLogs, name),
    journal: join(folder, "journal"),
    spare: spareOf(at, name),
    socket,
    cgroup,
    resources: [
      { kind: "directory", name: folder },
      ...foldersOf(cgroup).map((path): HostResource => ({ kind: "cgroup", name: path })),
      { kind: "socket", name: socket },
      { kind: "namespace", name },
    ],
  };
}

/** where the further copy of a machine's record is */
export function spareOf({ spares }: Pick<Places, "spares">, name: string): string {
  return join(spares, `${name}.json`);
}

export function slotOf(machine: { base: number }): number {
  return Math.floor((machine.base - firstBase) / idsPerMachine);
}

export function planPrepare(prepared: MachinePlan, network: NetworkMode): PreparePlan {
  const { name, base, socket, journal, cgroup } = prepared;
  return {
    name,
    base,
    socket,
    journal,
    network,
    unified: cgroup.unified ?? "",
    cgroups: joinedFolders(cgroup),
    memoryEvents: memoryEvents(cgroup),
  };
}

/** for a launcher that takes the machine over from one that died */
export function orphanPlan(plan: MachinePlan, pid: number, network: NetworkMode): OrphanPlan {
  return { name: plan.name, pid, base: plan.base, socket: plan.socket, unified: plan.cgroup.unified ?? "", network };
}

export function planActivate(
  prepared: MachinePlan,
  root: { layers: string[]; limits: Limits; sudo: boolean; hostCpus: number; mounts: MountPlan[] },
): ActivatePlan {
  return {
    name: prepared.name,
    layers: root.layers,
    volume: prepared.volume,
    noNewPrivileges: !root.sudo,
    cpus: shownCpus(root.limits, root.hostCpus),
    // charged to the sandbox's memory like everything else; half of it, as Linux does
    sharedMemory: Math.max(16 << 20, Math.floor(root.limits.memory / 2)),
    mounts: root.mounts,
  };
}

/** processors that programs inside see: never fewer than the limit allows to use */
export function shownCpus(limits: Limits, hostCpus: number): number {
  const wanted = Math.max(1, Math.ceil(limits.vcpus));
  return wanted >= hostCpus ? 0 : wanted;
}

/** fills in defaults and refuses what makes no sense, before anything is made */
export function checkSpec(spec: MachineSpec, defaults: Limits): Machine["spec"] {
  if (!isPlainName(spec.id)) {
    throw new SandkeepError("invalid", `Cannot boot machine "${spec.id}": an id is 1 to 64 of A-Z a-z 0-9 _ -`);
  }
  const limits = { ...defaults, ...definedOf(spec.limits ?? {}) };
  checkLimits(limits);
  const mounts = spec.mounts ?? [];
  checkMounts(mounts);
  return {
    id: spec.id,
    root: spec.root,
    limits,
    network: modeOf(spec.network ?? "allow-all"),
    sudo: spec.sudo ?? true,
    mounts,
    ...(spec.line !== undefined && { line: spec.line }),
  };
}

/** what is on record of it; its policy is not */
export function modeOf(network: MachineNetwork): NetworkMode {
  return typeof network === "string" ? network : network.mode;
}

const mostMounts = 8;

function checkMounts(mounts: MachineMount[]): void {
  const refuse = (path: string, why: string) =>
    new SandkeepError("invalid", `Cannot mount a drive on "${path}": ${why}`);
  for (const { path } of mounts) {
    if (!/^(\/[^/\0]+)+$/.test(path) || path.split("/").some((part) => part === "." || part === "..")) {
      throw refuse(path, "it is no absolute path");
    }
    if (path.length > 255) throw refuse(path, "it is longer than 255 characters");
    if (["/proc", "/dev", "/sys"].some((top) => path === top || path.startsWith(`${top}/`))) {
      throw refuse(path, "the kernel's own files are there");
    }
    const overlaps = mounts.filter((other) => other.path === path || other.path.startsWith(`${path}/`));
    if (overlaps.length > 1) throw refuse(path, "two drives overlap");
  }
  if (mounts.length > mostMounts) throw refuse(mounts[0]?.path ?? "", `there are more than ${mostMounts}`);
}

export function checkLimits(limits: Partial<Limits>): void {
  const bounds: Record<keyof Limits, [least: number, most: number, unit: string]> = {
    vcpus: [0.01, 1024, "processors"],
    memory: [16 << 20, 2 ** 46, "bytes"],
    pids: [8, 4_194_304, "processes"],
    disk: [4 << 20, 2 ** 50, "bytes"],
  };
  for (const [name, value] of Object.entries(limits)) {
    const bound = Object.hasOwn(bounds, name) ? bounds[name as keyof Limits] : undefined;
    if (bound === undefined) throw new SandkeepError("invalid", `Cannot limit "${name}": there is no such limit`);
    const [least, most, unit] = bound;
    if (!Number.isFinite(value) || value < least || value > most || (name !== "vcpus" && !Number.isInteger(value))) {
      throw new SandkeepError("invalid", `Cannot limit ${name} to ${value}: it takes ${least} to ${most} ${unit}`);
    }
  }
}

export function isPlainName(name: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(name);
}

export function isTerminalSize(size: { rows: number; columns: number }): boolean {
  return [size.rows, size.columns].every((value) => Number.isInteger(value) && value >= 0 && value <= 0xffff);
}
