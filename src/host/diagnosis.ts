/** What a host's facts mean for sandboxes: what is fine, what limits them, and what prevents them. */

import { sizeInWords } from "../base/size-in-words.ts";
import type { Diagnosis, Finding } from "../core/model/diagnosis.ts";
import type { HostFacts } from "./host.ts";
import { hostLimits } from "./host-limits.ts";

export function diagnose(facts: HostFacts): Diagnosis {
  const findings = checks.flatMap((check) => check(facts));
  const ok = findings.every(({ state }) => state !== "missing");
  return { ok, isolation: ok ? isolationOf(facts) : [], findings };
}

const gigabyte = 1e9;
/** least free bytes for the database and records */
const leastToStart = 8e6;
const neededControllers = ["cpu", "memory", "pids"];

const checks: ((facts: HostFacts) => Finding | Finding[])[] = [
  ({ platform, arch }) =>
    finding("system", platform === "linux" && ["x64", "arm64"].includes(arch), `${platform} on ${arch}`, {
      missing: "Sandkeep runs on Linux, on x64 and arm64",
    }),
  ({ root, serveAsRoot }) =>
    finding("user", root, "root", { missing: "making sandboxes needs root", fix: serveAsRoot }),
  ({ root, lackingCapabilities }) =>
    finding("privileges", !root || lackingCapabilities.length === 0, root ? "all of root's" : "those of your user", {
      missing: `root lacks ${lackingCapabilities.map((name) => `CAP_${name}`).join(", ")}, as in most containers`,
      fix: "run the container with --privileged",
    }),
  ({ kernel }) => {
    if (atLeast(kernel, 6, 1)) return { name: "kernel", state: "ok", detail: kernel };
    // overlayfs supports layers with mapped owners since 5.19.
    if (atLeast(kernel, 5, 19)) return { name: "kernel", state: "warning", detail: `${kernel}, tested from 6.1 on` };
    return { name: "kernel", state: "missing", detail: `${kernel} cannot map the owners of layers; 6.1 or later can` };
  },
  ({ userNamespaces }) =>
    finding("user namespaces", userNamespaces, "a range of user ids for each sandbox", {
      missing: "switched off",
      fix: "sysctl -w user.max_user_namespaces=65536",
    }),
  ({ seccomp }) =>
    finding("seccomp", seccomp, "system calls are filtered", { missing: "the kernel has no seccomp (CONFIG_SECCOMP)" }),
  ({ overlay }) =>
    finding("overlayfs", overlay, "a writable layer over an image", { missing: "not there", fix: "modprobe overlay" }),
  ({ cgroups }) => {
    const lacking = neededControllers.filter((name) => !cgroups.controllers.includes(name));
    return finding("cgroups", lacking.length === 0, `version ${cgroups.version} with ${neededControllers.join(", ")}`, {
      missing: `no controller for ${lacking.join(", ")}`,
      fix: "mount -t cgroup2 none /sys/fs/cgroup",
    });
  },
  ({ nftables, tproxy }) => {
    const lacking = [nftables ? [] : ["nf_tables"], tproxy ? [] : ["nft_tproxy"]].flat();
    return finding("network", lacking.length === 0, "traffic goes through the proxy, by nf_tables and tproxy", {
      missing: `the kernel has no ${lacking.join(" and no ")}`,
      fix: `modprobe -a ${lacking.join(" ")}`,
    });
  },
  ({ lackingLogs }) => {
    const name = "egress log";
    if (lackingLogs.length === 0) return { name, state: "ok", detail: "also shows what the kernel refuses" };
    const detail = `the kernel has no ${lackingLogs.join(" and no ")}: the log does not show what deny-all refuses`;
    return { name, state: "warning", detail, fix: `modprobe -a ${lackingLogs.join(" ")}` };
  },
  ({ fuse }) => {
    const name = "limits inside";
    if (fuse) return { name, state: "ok", detail: "/proc shows each sandbox's own memory, processors and load" };
    const detail =
      "/dev/fuse is missing: /proc inside shows the right limits, but memory and load as they were at the start";
    return { name, state: "warning", detail, fix: "modprobe fuse" };
  },
  ({ freezer, memory }) => {
    const name = "pauses";
    const place = memory.swap > 0 ? "which goes to the swap" : "which stays in RAM, as there is no swap";
    if (freezer) return { name, state: "ok", detail: `keep the memory of sandboxes, ${place}` };
    const detail = "no cgroup freezer is mounted: a pause keeps files only, and programs end";
    return { name, state: "warning", detail, fix: "mount -t cgroup2 none /sys/fs/cgroup/unified" };
  },
  ({ timeNamespaces }) => {
    const name = "clock inside";
    if (timeNamespaces) return { name, state: "ok", detail: "uptime counts from each sandbox's own start" };
    const detail = "the kernel has no time namespaces: uptime and ps inside count from the start of the host";
    return { name, state: "warning", detail, fix: "sysctl -w user.max_time_namespaces=65536" };
  },
  ({ guest }) =>
    finding("native program", guest.compiled || guest.compiler, guest.compiled ? "compiled" : "compiled at the start", {
      missing: "not compiled, and there is no C compiler",
      fix: "apt-get install -y --no-install-recommends gcc libc6-dev make",
    }),
  storage,
  ({ store }) => {
    const name = "disk";
    const [free, reserve] = [sizeInWords(store.free), sizeInWords(store.reserve)];
    if (store.free < leastToStart) {
      return { name, state: "missing", detail: `only ${free} free: too little for a daemon to start` };
    }
    if (store.free < store.reserve) {
      const detail = `${free} free, less than the reserve of ${reserve}: sandboxes cannot grow`;
      return { name, state: "warning", detail, fix: `du -xh ${store.path} | sort -h | tail` };
    }
    const detail = `${free} free, with a reserve of ${reserve}`;
    if (store.free >= 5 * gigabyte) return { name, state: "ok", detail };
    return { name, state: "warning", detail: `only ${detail}` };
  },
  ({ memory }) => ({
    name: "memory",
    state: memory.available < gigabyte ? "warning" : "ok",
    detail: `${sizeInWords(memory.available)} of ${sizeInWords(memory.total)} available, ${
      memory.swap > 0 ? `${sizeInWords(memory.swap)} swap, which sandboxes do not get` : "no swap"
    }`,
  }),
  ({ limits }) => hostLimits(limits),
  ({ view }) => (view ? hostFiles(view) : []),
  ({ packages }) => {
    const names = [...new Set(packages.map(({ name }) => name))];
    const why = packages.map((need) => `${need.name}, which ${need.why}`).join("; ");
    if (names.length === 0) return { name: "packages", state: "ok", detail: "all there" };
    const fix = `apt-get install -y --no-install-recommends ${names.join(" ")}`;
    return { name: "packages", state: "warning", detail: `missing: ${why}`, fix };
  },
  ({ builds }) => {
    const name = "builds";
    if (builds.length === 0) return { name, state: "ok", detail: "every process is of this build" };
    return builds.map((detail) => ({ name, state: "warning", detail, fix: "sandkeep upgrade" }) as const);
  },
  ({ tls }) => {
    const name = "TLS";
    if (!tls) return [];
    if (tls.error !== undefined) return { name, state: "missing", detail: tls.error };
    if (tls.problems.length > 0) return tls.problems.map((detail) => ({ name, state: "warning", detail }) as const);
    const [day] = new Date(tls.validTo).toISOString().split("T");
    return { name, state: "ok", detail: `HTTPS for ${tls.names.join(", ")} until ${day}` };
  },
  ({ node }) =>
    finding("Node", Number.parseInt(node, 10) >= 24, node, {
      missing: `${node} is too old for the daemon`,
      fix: "npm start, which brings its own Node 24",
    }),
];

/** for information only */
function hostFiles({ shown, masked, unpackaged }: NonNullable<HostFacts["view"]>): Finding[] {
  const hidden =
    masked.length === 0
      ? "every user of this host can read all of these"
      : `hidden, because other users of this host cannot read it: ${listed(masked)}`;
  const others = {
    name: "host's files",
    state: "ok",
    detail: `shown, although it belongs to no package: ${listed(unpackaged)}`,
  } as const;
  return [
    {
      name: "host's files",
      state: "ok",
      detail: `the default image shows ${shown.join(", ")}, and the list of packages`,
    },
    { name: "host's files", state: "ok", detail: hidden },
    ...(unpackaged.length > 0 ? [others] : []),
  ];
}

/** the first few paths; --json has all of them */
function listed(paths: string[]): string {
  const most = 8;
  const more = paths.length > most ? ` and ${paths.length - most} more (--json lists them)` : "";
  return `${paths.slice(0, most).join(", ")}${more}`;
}

function storage({ store, root }: HostFacts): Finding {
  const name = "store";
  if (store.readOnly) {
    const detail =
      "read-only, because a write to its disk failed; a daemon makes it writable again when the disk has room";
    return { name, state: "warning", detail };
  }
  if (root && !store.writable) return { name, state: "missing", detail: `"${store.path}" cannot be written to` };
  if (store.onBtrfs) return { name, state: "ok", detail: `btrfs at ${store.path}` };
  if (store.btrfs && store.mkfs && store.loop) return { name, state: "ok", detail: `a btrfs image in ${store.path}` };
  const lost = "a plain folder: Sandkeep checks disk limits instead of the kernel, and snapshots copy files";
  if (!store.btrfs)
    return { name, state: "warning", detail: `${lost}; the kernel has no btrfs`, fix: "modprobe btrfs" };
  if (!store.mkfs)
    return { name, state: "warning", detail: lost, fix: "apt-get install -y --no-install-recommends btrfs-progs" };
  return { name, state: "warning", detail: `${lost}; there are no loop devices`, fix: "modprobe loop" };
}

function isolationOf({ cgroups, store }: HostFacts): string[] {
  const enforced = store.onBtrfs || (store.btrfs && store.mkfs && store.loop);
  return [
    "namespaces of its own for users, processes, mounts, network, IPC and host name; root inside is an unprivileged user outside",
    "a filter on system calls, and no capability over the host",
    `cpu, memory and processes limited by cgroups of version ${cgroups.version}`,
    `a limit on its disk use, ${enforced ? "which btrfs enforces" : "which Sandkeep checks again and again"}`,
    "no network except through the daemon's proxy, which enforces its policy",
    "the host's kernel, shared by all sandboxes: not a virtual machine",
  ];
}

function finding(name: string, good: boolean, detail: string, otherwise: { missing: string; fix?: string }): Finding {
  if (good) return { name, state: "ok", detail };
  const { missing, fix } = otherwise;
  return { name, state: "missing", detail: missing, ...(fix !== undefined && { fix }) };
}

function atLeast(kernel: string, major: number, minor: number): boolean {
  const [first = 0, second = 0] = kernel.split(/[^\d]/).map(Number);
  return first > major || (first === major && second >= minor);
}
