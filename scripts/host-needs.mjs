/**
 * The programs, files and kernel features that Sandkeep needs on its host.
 * Plain JavaScript without dependencies, because it runs before anything is installed.
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { release } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

/**
 * @typedef {object} HostNeed
 * @property {string} [command] a program on PATH or in sbin
 * @property {string} [file] must have exactly this path; `*` stands for any part of a name
 * @property {string} package its package in Debian and Ubuntu
 * @property {string} why the purpose that Sandkeep needs it for
 * @property {"run" | "test" | "bench"} when the activity that needs it
 */

/** @type {HostNeed[]} */
export const hostNeeds = [
  { command: "cc", package: "gcc", why: "compiles guest/", when: "run" },
  { file: "/usr/include/stdio.h", package: "libc6-dev", why: "compiles guest/", when: "run" },
  { command: "make", package: "make", why: "compiles guest/", when: "run" },
  { command: "mkfs.btrfs", package: "btrfs-progs", why: "makes the store for layers", when: "run" },
  { command: "mount", package: "mount", why: "mounts the store", when: "run" },
  { command: "losetup", package: "mount", why: "mounts the store", when: "run" },

  // A sandbox of the default image sees the host's /usr and nothing else, so its programs must be there: a Python or a
  // git in a home directory or below /opt does not count.
  { file: "/usr/bin/python3", package: "python3", why: "is python3 inside a sandbox", when: "run" },
  { file: "/usr/bin/pip3", package: "python3-pip", why: "is pip inside a sandbox", when: "run" },
  {
    file: "/usr/lib/python3*/ensurepip",
    package: "python3-venv",
    why: "makes virtual environments inside a sandbox",
    when: "run",
  },
  { file: "/usr/bin/git", package: "git", why: "is git inside a sandbox", when: "run" },
  { file: "/usr/bin/curl", package: "curl", why: "is curl inside a sandbox", when: "run" },
  { file: "/usr/bin/sudo", package: "sudo", why: "is sudo inside a sandbox", when: "run" },
  { file: "/usr/bin/find", package: "findutils", why: "is find inside a sandbox", when: "run" },
  { file: "/usr/sbin/useradd", package: "passwd", why: "is useradd inside a sandbox", when: "run" },
  { file: "/usr/bin/ps", package: "procps", why: "is ps inside a sandbox", when: "run" },
  { file: "/usr/bin/tar", package: "tar", why: "is tar inside a sandbox", when: "run" },
  { file: "/usr/bin/gzip", package: "gzip", why: "is gzip inside a sandbox", when: "run" },
  {
    file: "/usr/lib/python3/dist-packages/ipykernel",
    package: "python3-ipykernel",
    why: "runs Python for the code interpreter inside a sandbox",
    when: "test",
  },
  {
    file: "/etc/ssl/certs/ca-certificates.crt",
    package: "ca-certificates",
    why: "is what TLS clients inside a sandbox trust",
    when: "run",
  },

  { command: "fish", package: "fish", why: "completes our commands in tests", when: "test" },
  { command: "zsh", package: "zsh", why: "completes our commands in tests", when: "test" },
  { command: "tmux", package: "tmux", why: "draws the screen of our commands in tests", when: "test" },
  { command: "vim.tiny", package: "vim-tiny", why: "is a full-screen program inside a sandbox in tests", when: "test" },
  { command: "less", package: "less", why: "is a full-screen program inside a sandbox in tests", when: "test" },
  { command: "skopeo", package: "skopeo", why: "reads the images that we export", when: "test" },
  { command: "clang", package: "clang", why: "fuzzes the frame parser of guest/", when: "test" },
  {
    file: "/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a",
    package: "libclang-rt-dev",
    why: "fuzzes the frame parser of guest/",
    when: "test",
  },
  { file: "/usr/bin/go", package: "golang-go", why: "builds a Go program that runs inside a sandbox", when: "test" },
  {
    file: "/usr/lib/python3/dist-packages/psutil",
    package: "python3-psutil",
    why: "asks for the memory of a sandbox",
    when: "test",
  },
  { command: "lscpu", package: "util-linux", why: "asks for the processors of a sandbox", when: "test" },
  { command: "javac", package: "default-jdk-headless", why: "asks what Java inside a sandbox trusts", when: "test" },
  { command: "keytool", package: "default-jre-headless", why: "reads trust stores of Java in tests", when: "test" },
  { command: "ip", package: "iproute2", why: "makes network namespaces for tests", when: "test" },
  { file: "/usr/bin/rsync", package: "rsync", why: "copies hard links inside a sandbox", when: "test" },
  { command: "mkfs.ext4", package: "e2fsprogs", why: "makes small disks that tests fill", when: "test" },
  { command: "nft", package: "nftables", why: "makes firewalls inside a sandbox for tests", when: "test" },
  { command: "tcpdump", package: "tcpdump", why: "watches the wires of a sandbox for tests", when: "test" },
  { command: "strace", package: "strace", why: "is traced with behind the system call filter in tests", when: "test" },
  { command: "openssl", package: "openssl", why: "checks our certificates in tests", when: "test" },
  { command: "docker-registry", package: "docker-registry", why: "is pulled from in tests", when: "test" },
  { command: "chromium", package: "chromium", why: "opens the dashboard in tests", when: "test" },
  {
    file: "/usr/share/fonts/truetype/dejavu/DejaVuSansMono-Bold.ttf",
    package: "fonts-dejavu-core",
    why: "is in the stored pictures of the dashboard",
    when: "test",
  },
  { command: "skopeo", package: "skopeo", why: "pushes images to a registry for tests", when: "test" },
  { command: "umoci", package: "umoci", why: "makes images for tests", when: "test" },
  { command: "setcap", package: "libcap2-bin", why: "makes files with capabilities for tests", when: "test" },
  { command: "pzstd", package: "zstd", why: "writes layers of many frames for tests", when: "test" },
  { file: "/bin/busybox", package: "busybox-static", why: "is the only program in images for tests", when: "test" },
  { command: "musl-gcc", package: "musl-tools", why: "compiles a program for an image with musl", when: "test" },
  { command: "mmdebstrap", package: "mmdebstrap", why: "builds a Debian image", when: "test" },
  {
    file: "/usr/lib/postgresql/*/bin/postgres",
    package: "postgresql",
    why: "is the other engine of the store",
    when: "test",
  },

  {
    file: "/usr/lib/python3/dist-packages/ipykernel",
    package: "python3-ipykernel",
    why: "runs Python for the code interpreter in benchmarks",
    when: "bench",
  },
  { command: "bwrap", package: "bubblewrap", why: "is measured beside Sandkeep", when: "bench" },
  { command: "crun", package: "crun", why: "is measured beside Sandkeep", when: "bench" },
  { command: "docker-registry", package: "docker-registry", why: "is pulled from in benchmarks", when: "bench" },
  { command: "skopeo", package: "skopeo", why: "is measured beside Sandkeep", when: "bench" },
  { command: "chromium", package: "chromium", why: "opens the dashboard in benchmarks", when: "bench" },
  { command: "umoci", package: "umoci", why: "is measured beside Sandkeep", when: "bench" },
  {
    file: "/usr/lib/postgresql/*/bin/postgres",
    package: "postgresql",
    why: "is the other engine of the store",
    when: "bench",
  },
];

/**
 * The rows that this host lacks for one of the given purposes.
 * @param {string[]} purposes
 */
export function missing(purposes, needs = hostNeeds) {
  return needs.filter((need) => purposes.includes(need.when) && !present(need));
}

/**
 * A message about needs that this host lacks: each with its reason, then how to install them all.
 * @param {HostNeed[]} needs
 */
export function advice(needs, isRoot = process.getuid?.() === 0) {
  if (needs.length === 0) return [];
  const packages = packagesOf(needs).join(" ");
  return [
    ...needs.map(({ command, file, why }) => `Missing: ${command ?? file}, which ${why}`),
    onPath("apt-get")
      ? `Run: ${isRoot ? "" : "sudo "}apt-get install -y --no-install-recommends ${packages}`
      : `Install what Debian calls: ${packages}`,
  ];
}

/** @param {HostNeed[]} needs */
export function packagesOf(needs) {
  return [...new Set(needs.map((need) => need.package))];
}

/** @param {string} command */
export function onPath(command) {
  // Root's tools are in sbin, which not every PATH has.
  const directories = `${process.env.PATH ?? ""}:/usr/sbin:/sbin`.split(":").filter((directory) => directory !== "");
  return directories.some((directory) => existsSync(join(directory, command)));
}

/** Sentences about features that the running kernel certainly lacks; unknown ones are not mentioned. */
export function kernelComplaints() {
  const complaints = [];
  if (!existsSync("/proc/self/ns/user") || text("/proc/sys/user/max_user_namespaces").trim() === "0")
    complaints.push("The kernel has user namespaces switched off (user.max_user_namespaces)");
  const lacking = ["cpu", "memory", "pids"].filter((controller) => !cgroupControllers().includes(controller));
  if (lacking.length > 0) complaints.push(`No cgroup hierarchy is mounted for: ${lacking.join(", ")}`);
  for (const { option, module, why } of kernelFeatures)
    if (!kernelHas(option, module)) complaints.push(`The kernel lacks ${module} (${option}), which ${why}`);
  return complaints;
}

const kernelFeatures = [
  { option: "CONFIG_OVERLAY_FS", module: "overlay", why: "puts a writable layer over an image" },
  { option: "CONFIG_NF_TABLES", module: "nf_tables", why: "sends a sandbox's traffic to the proxy" },
  { option: "CONFIG_NFT_TPROXY", module: "nft_tproxy", why: "sends a sandbox's traffic to the proxy" },
];

/** @param {HostNeed} need */
function present({ file, command }) {
  return file !== undefined ? matches("/", file.split("/").slice(1)) : command !== undefined && onPath(command);
}

/**
 * Whether a file exists below a directory whose path is these names, some with a `*`.
 * @param {string} directory
 * @param {string[]} names
 * @returns {boolean}
 */
function matches(directory, [name, ...rest]) {
  if (name === undefined) return existsSync(directory);
  if (!name.includes("*")) return matches(join(directory, name), rest);
  const pattern = new RegExp(`^${name.replace(/[.+]/g, "\\$&").replace(/\*/g, ".*")}$`);
  return entriesOf(directory).some((entry) => pattern.test(entry) && matches(join(directory, entry), rest));
}

/** @param {string} directory */
function entriesOf(directory) {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

/** the controllers of every mounted hierarchy, of version 1 and 2 */
export function cgroupControllers() {
  const mounts = text("/proc/self/mounts").split("\n");
  return mounts
    .map((line) => line.split(" "))
    .flatMap(([, path = "", type, options = ""]) => {
      if (type === "cgroup2") return text(join(path, "cgroup.controllers")).trim().split(" ");
      return type === "cgroup" ? options.split(",") : [];
    });
}

/**
 * Whether a feature is built in or loadable, by the running kernel, its list of modules or its configuration.
 * @param {string} option
 * @param {string} module
 */
export function kernelHas(option, module) {
  if (existsSync(`/sys/module/${module}`) || text("/proc/filesystems").includes(`\t${module}\n`)) return true;
  const modules = `/lib/modules/${release()}`;
  const listed = text(`${modules}/modules.builtin`) + text(`${modules}/modules.dep`);
  if (listed.includes(`/${module}.ko`)) return true;
  const config = kernelConfig();
  // Many hosts hide both lists; then only a try can tell.
  return config === "" || new RegExp(`^${option}=[ym]$`, "m").test(config);
}

function kernelConfig() {
  if (existsSync("/proc/config.gz")) return gunzipSync(readFileSync("/proc/config.gz")).toString();
  return text(`/boot/config-${release()}`);
}

/**
 * A file's content, or an empty text if it cannot be read.
 * @param {string} path
 */
function text(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
