/** Kernel limits for the whole host, and whether they suffice for the configured number of sandboxes. */

import { readFileSync } from "node:fs";
import type { Finding } from "../core/model/diagnosis.ts";

export interface HostLimits {
  /** most sandboxes at once, and most processes of each */
  sandboxes: number;
  processes: number;
  /** kernel settings by name; omits those that this kernel lacks */
  settings: Partial<Record<SettingName, number>>;
}

type SettingName =
  | "kernel.pid_max"
  | "kernel.threads-max"
  | "kernel.pty.max"
  | "fs.file-max"
  | "net.core.bpf_jit_limit"
  | "user.max_user_namespaces"
  | "user.max_net_namespaces";

/** processes and terminals of the host itself */
const hostProcesses = 4096;
const hostTerminals = 1024;
/** the kernel's maximum for processes on a 64-bit machine */
const mostProcesses = 4_194_304;
/** most of each sandbox (guest/sandbox/sandbox.c, guest/agent/spawn.c) */
const terminals = 64;
const files = 65_536;
/** bytes of compiled filters: of every sandbox's own, and of all that one may install (guest/confinement/filters.h) */
const ownFilter = 8 << 10;
const otherFilters = 128 * (112 << 10);

const needed: Record<SettingName, (limits: HostLimits) => number> = {
  "kernel.pid_max": ({ sandboxes, processes }) => Math.min(mostProcesses, sandboxes * processes + hostProcesses),
  "kernel.threads-max": ({ sandboxes, processes }) => Math.min(mostProcesses, sandboxes * processes + hostProcesses),
  "kernel.pty.max": ({ sandboxes }) => sandboxes * terminals + hostTerminals,
  "fs.file-max": ({ sandboxes }) => sandboxes * files,
  // Above half of it, sandboxes lose processes (src/runtime/linux/host/filter-watch.ts).
  "net.core.bpf_jit_limit": ({ sandboxes }) => 2 * (sandboxes * ownFilter + otherFilters),
  "user.max_user_namespaces": ({ sandboxes }) => sandboxes + hostProcesses,
  "user.max_net_namespaces": ({ sandboxes }) => sandboxes + hostProcesses,
};

const names = Object.keys(needed) as SettingName[]; // the keys are written above

export function readHostLimits(configured: Pick<HostLimits, "sandboxes" | "processes">): HostLimits {
  return {
    ...configured,
    settings: Object.fromEntries(
      names.flatMap((name) => {
        const value = setting(name);
        return value === undefined ? [] : [[name, value]];
      }),
    ),
  };
}

/** a warning for each limit that is too small, with the command that raises it */
export function hostLimits(limits: HostLimits): Finding[] {
  const small = names.filter((name) => (limits.settings[name] ?? Number.POSITIVE_INFINITY) < needed[name](limits));
  if (small.length === 0) {
    return [{ name: "host limits", state: "ok", detail: `room for ${limits.sandboxes} sandboxes` }];
  }
  return small.map((name) => ({
    name,
    state: "warning",
    detail: `${limits.settings[name]} is too small if ${limits.sandboxes} sandboxes (SANDKEEP_MAX_SANDBOXES) use all that they may`,
    fix: `sysctl -w ${name}=${needed[name](limits)}`,
  }));
}

function setting(name: SettingName): number | undefined {
  try {
    return Number(readFileSync(`/proc/sys/${name.replaceAll(".", "/")}`, "utf8"));
  } catch {
    return undefined;
  }
}
