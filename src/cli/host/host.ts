/** What this host is and has, as far as cheap looks at /proc, /sys and the file system tell. Nothing is changed. */

import { accessSync, constants, existsSync, readFileSync, statfsSync } from "node:fs";
import { arch, platform, release } from "node:os";
import { dirname, join } from "node:path";
import { type HostLimits, readHostLimits } from "./host-limits.ts";

export interface HostFacts {
  platform: string;
  arch: string;
  /** of Node */
  node: string;
  kernel: string;
  root: boolean;
  /** names without CAP_, of those that making a sandbox needs, that this process lacks */
  lackingCapabilities: string[];
  userNamespaces: boolean;
  timeNamespaces: boolean;
  seccomp: boolean;
  overlay: boolean;
  nftables: boolean;
  tproxy: boolean;
  /** modules that tell what the ruleset refuses, and are not there */
  lackingLogs: string[];
  /** whether a sandbox can serve files of /proc of its own */
  fuse: boolean;
  cgroups: { version: 1 | 2; controllers: string[] };
  /** whether the native program is compiled, and whether it could be */
  guest: { compiled: boolean; compiler: boolean };
  store: {
    path: string;
    onBtrfs: boolean;
    btrfs: boolean;
    mkfs: boolean;
    loop: boolean;
    /** bytes that are free on its disk, with those that a daemon holds there as a reserve */
    free: number;
    /** bytes that stay free: with less, sandboxes cannot grow */
    reserve: number;
    /** whether the kernel has made a mounted store read-only, as after a failed write */
    readOnly: boolean;
    writable: boolean;
  };
  memory: { total: number; available: number; swap: number };
  limits: HostLimits;
  /** what sandboxes of the default image see of this host's files; undefined where it could not be found out */
  view?: HostView | undefined;
  /** processes of an earlier build that go on, a sentence each */
  builds: string[];
  /** what Debian calls the packages that are missing, and why they are needed */
  packages: { name: string; why: string }[];
}

/** What sandboxes of the default image see: directories, what in them is hidden, and what in them belongs to no package. */
interface HostView {
  shown: string[];
  masked: string[];
  unpackaged: string[];
}

/** What only the rest of the package knows. */
export interface HostKnowledge {
  view?: HostView | undefined;
  dataDir: string;
  /** whether the native program is */
  compiled: boolean;
  kernelHas(option: string, module: string): boolean;
  cgroupControllers(): string[];
  onPath(command: string): boolean;
  packages: HostFacts["packages"];
  /** of the disk of a data directory that is there, in bytes: what stays free, and what is held of it */
  reserve(directory: string): { reserve: number; held: number };
  isReadOnly(store: string): boolean;
  builds: string[];
}

export function readHost(known: HostKnowledge): HostFacts {
  return {
    platform: platform(),
    arch: arch(),
    node: process.versions.node,
    kernel: release(),
    root: process.getuid?.() === 0,
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
    guest: { compiled: known.compiled, compiler: known.onPath("cc") && known.onPath("make") },
    store: storeFacts(known),
    memory: { total: meminfo("MemTotal"), available: meminfo("MemAvailable"), swap: meminfo("SwapTotal") },
    limits: readHostLimits(process.env),
    view: known.view,
    builds: known.builds,
    packages: known.packages,
  };
}

/** whether the kernel has them, and they are not switched off */
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

/** bits of CapEff; even root has few of them in most containers */
const capabilityBits = { CHOWN: 0, SETGID: 6, SETUID: 7, NET_ADMIN: 12, SYS_CHROOT: 18, SYS_ADMIN: 21, MKNOD: 27 };

function lackingCapabilities(): string[] {
  const [, mask] = /^CapEff:\s*([0-9a-f]+)$/m.exec(text("/proc/self/status")) ?? [];
  if (mask === undefined) return [];
  const effective = BigInt(`0x${mask}`);
  return Object.entries(capabilityBits)
    .filter(([, bit]) => ((effective >> BigInt(bit)) & 1n) === 0n)
    .map(([name]) => name);
}

/** 2 only where version 2 has the controllers: a host may mount both */
function cgroupVersion(): 1 | 2 {
  const unified = text("/sys/fs/cgroup/cgroup.controllers").split(/\s+/);
  return unified.includes("memory") ? 2 : 1;
}

/** bytes */
function meminfo(name: string): number {
  const [, kibibytes = "0"] = new RegExp(`^${name}:\\s*(\\d+) kB$`, "m").exec(text("/proc/meminfo")) ?? [];
  return Number(kibibytes) * 1024;
}

/** nothing when it cannot be read */
function text(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
