/** Facts about this host, from cheap reads of /proc, /sys and the file system. Changes nothing. */

import { accessSync, constants, existsSync, readFileSync, statfsSync } from "node:fs";
import { arch, platform, release } from "node:os";
import { dirname, join } from "node:path";
import { type HostLimits, readHostLimits } from "./host-limits.ts";

export interface HostFacts {
  platform: string;
  arch: string;
  /** version of Node */
  node: string;
  kernel: string;
  root: boolean;
  /** the command line that starts the daemon as root */
  serveAsRoot: string;
  /** capabilities, without CAP_, that making a sandbox needs and this process lacks */
  lackingCapabilities: string[];
  userNamespaces: boolean;
  timeNamespaces: boolean;
  seccomp: boolean;
  overlay: boolean;
  nftables: boolean;
  tproxy: boolean;
  /** missing modules of those that report what the ruleset refuses */
  lackingLogs: string[];
  /** whether a sandbox can have its own files in /proc */
  fuse: boolean;
  cgroups: { version: 1 | 2; controllers: string[] };
  /** whether sandboxes can be paused with their memory: by version 2 of cgroups, or by a controller of version 1 */
  freezer: boolean;
  /** whether the native program is compiled, and whether it can be */
  guest: { compiled: boolean; compiler: boolean };
  store: {
    path: string;
    onBtrfs: boolean;
    btrfs: boolean;
    mkfs: boolean;
    loop: boolean;
    /** free bytes on its disk, including those that a daemon holds as a reserve */
    free: number;
    /** bytes to keep free: with less, sandboxes cannot grow */
    reserve: number;
    /** whether the kernel has made the mounted store read-only, as after a failed write */
    readOnly: boolean;
    writable: boolean;
  };
  memory: { total: number; available: number; swap: number };
  limits: HostLimits;
  /** the host's files that sandboxes of the default image see; undefined if unknown */
  view?: HostView | undefined;
  /** sentences about processes of an earlier build that still run */
  builds: string[];
  /** the certificate that the settings name; undefined without one */
  tls?: TlsFacts | undefined;
  /** Debian's names of missing packages, and why they are needed */
  packages: { name: string; why: string }[];
}

/** Of a certificate: its names and end, or why a daemon cannot serve with it; sentences about why clients refuse it. */
export interface TlsFacts {
  names: string[];
  /** ms since 1970 */
  validTo: number;
  error?: string;
  problems: string[];
}

/** What sandboxes of the default image see: directories, hidden paths in them, and paths that belong to no package. */
interface HostView {
  shown: string[];
  masked: string[];
  unpackaged: string[];
}

/** Facts that only the rest of the package knows. */
export interface HostKnowledge {
  view?: HostView | undefined;
  dataDir: string;
  /** whether the native program is compiled */
  compiled: boolean;
  kernelHas(option: string, module: string): boolean;
  cgroupControllers(): string[];
  onPath(command: string): boolean;
  packages: HostFacts["packages"];
  /** for the disk of an existing data directory, in bytes: what stays free, and how much of it is held */
  reserve(directory: string): { reserve: number; held: number };
  isReadOnly(store: string): boolean;
  builds: string[];
  /** the configured number of sandboxes, and of processes in each */
  limits: Pick<HostLimits, "sandboxes" | "processes">;
  tls?: TlsFacts | undefined;
  serveAsRoot: string;
}

export function readHost(known: HostKnowledge): HostFacts {
  return {
    platform: platform(),
    arch: arch(),
    node: process.versions.node,
    kernel: release(),
    root: process.getuid?.() === 0,
    serveAsRoot: known.serveAsRoot,
    lackingCapabilities: lackingCapabilities(),
    userNamespaces: hasNamespaces("user"),
    timeNamespaces: hasNamespaces("time"),
    seccomp: /^Seccomp:/m.test(text("/proc/self/status")),
    overlay: known.kernelHas("CONFIG_OVERLAY_FS", "overlay"),
    nftables: known.kernelHas("CONFIG_NF_TABLES", "nf_tables"),
    tproxy: known.kernelHas("CONFIG_NFT_TPROXY", "nft_tproxy"),
    lackingLogs: [
      known.kernelHas("CONFIG_NFT_LOG", "nft_log") ? [] : ["nft_log"],
      known.kernelHas("CONFIG_NETFILTER_NETLINK_LOG", "nfnetlink_log") ? [] : ["nfnetlink_log"],
    ].flat(),
    fuse: existsSync("/dev/fuse") && known.kernelHas("CONFIG_FUSE_FS", "fuse"),
    cgroups: { version: cgroupVersion(), controllers: known.cgroupControllers() },
    freezer: / cgroup2 /.test(text("/proc/self/mounts")) || known.cgroupControllers().includes("freezer"),
    guest: { compiled: known.compiled, compiler: known.onPath("cc") && known.onPath("make") },
    store: storeFacts(known),
    memory: { total: meminfo("MemTotal"), available: meminfo("MemAvailable"), swap: meminfo("SwapTotal") },
    limits: readHostLimits(known.limits),
    view: known.view,
    builds: known.builds,
    tls: known.tls,
    packages: known.packages,
  };
}

/** whether the kernel has them and they are enabled */
function hasNamespaces(kind: "user" | "time"): boolean {
  return existsSync(`/proc/self/ns/${kind}`) && text(`/proc/sys/user/max_${kind}_namespaces`).trim() !== "0";
}

const btrfsMagic = 0x9123683e;

function storeFacts({ dataDir, kernelHas, onPath, ...known }: HostKnowledge): HostFacts["store"] {
  const there = nearest(dataDir);
  const { type, bavail, bsize } = statfsSync(there);
  const { reserve, held } = known.reserve(there);
  const store = join(dataDir, "store");
  return {
    path: dataDir,
    onBtrfs: type === btrfsMagic,
    btrfs: kernelHas("CONFIG_BTRFS_FS", "btrfs"),
    mkfs: onPath("mkfs.btrfs"),
    loop: existsSync("/dev/loop-control"),
    free: bavail * bsize + held,
    reserve,
    readOnly: existsSync(store) && known.isReadOnly(store),
    writable: writable(there),
  };
}

/** the path, or the closest folder above it that exists */
function nearest(path: string): string {
  return existsSync(path) || path === dirname(path) ? path : nearest(dirname(path));
}

function writable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** bit numbers in CapEff; in most containers even root lacks some */
const capabilityBits = { CHOWN: 0, SETGID: 6, SETUID: 7, NET_ADMIN: 12, SYS_CHROOT: 18, SYS_ADMIN: 21, MKNOD: 27 };

function lackingCapabilities(): string[] {
  const [, mask] = /^CapEff:\s*([0-9a-f]+)$/m.exec(text("/proc/self/status")) ?? [];
  if (mask === undefined) return [];
  const effective = BigInt(`0x${mask}`);
  return Object.entries(capabilityBits)
    .filter(([, bit]) => ((effective >> BigInt(bit)) & 1n) === 0n)
    .map(([name]) => name);
}

/** 2 only if version 2 has the controllers: a host may mount both */
function cgroupVersion(): 1 | 2 {
  const unified = text("/sys/fs/cgroup/cgroup.controllers").split(/\s+/);
  return unified.includes("memory") ? 2 : 1;
}

/** bytes */
function meminfo(name: string): number {
  const [, kibibytes = "0"] = new RegExp(`^${name}:\\s*(\\d+) kB$`, "m").exec(text("/proc/meminfo")) ?? [];
  return Number(kibibytes) * 1024;
}

/** empty if it cannot be read */
function text(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
