/** Tests of `sandkeep doctor`: its diagnosis of good and bad hosts, and that it can read this one. */

import { expect, test } from "vitest";
import { diagnose } from "../../host/diagnosis.ts";
import { type HostFacts, readHost } from "../../host/host.ts";
import { doctorCommand } from "./doctor.ts";

const good: HostFacts = {
  platform: "linux",
  arch: "x64",
  node: "24.1.0",
  kernel: "6.8.0-45-generic",
  root: true,
  serveAsRoot: "sudo sandkeep serve",
  lackingCapabilities: [],
  userNamespaces: true,
  timeNamespaces: true,
  seccomp: true,
  overlay: true,
  nftables: true,
  tproxy: true,
  lackingLogs: [],
  fuse: true,
  freezer: true,
  cgroups: { version: 2, controllers: ["cpu", "io", "memory", "pids"] },
  guest: { compiled: true, compiler: true },
  store: {
    path: "/d",
    onBtrfs: false,
    btrfs: true,
    mkfs: true,
    loop: true,
    free: 50e9,
    reserve: 2e9,
    readOnly: false,
    writable: true,
  },
  memory: { total: 16e9, available: 8e9, swap: 2e9 },
  limits: { sandboxes: 10, processes: 100, settings: { "kernel.pid_max": 32_768, "kernel.pty.max": 4096 } },
  builds: [],
  packages: [],
};

test("a good host has no complaints, and the diagnosis lists the isolation of a sandbox", () => {
  const { ok, findings, isolation } = diagnose(good);
  expect(ok).toBe(true);
  expect(findings.filter(({ state }) => state !== "ok")).toEqual([]);
  expect(isolation).toContain("cpu, memory and processes limited by cgroups of version 2");
});

test("a certificate is shown with its names and its last day, and nothing is said without one", () => {
  const lines = (facts: HostFacts) => diagnose(facts).findings.filter(({ name }) => name === "TLS");
  const tls = { names: ["a.example", "*.a.example"], validTo: Date.UTC(2030, 0, 2), problems: [] };
  expect(lines({ ...good, tls })).toEqual([
    { name: "TLS", state: "ok", detail: "HTTPS for a.example, *.a.example until 2030-01-02" },
  ]);
  expect(lines(good)).toEqual([]);
});

test.each<[string, Partial<HostFacts>, RegExp, string?]>([
  ["system", { platform: "darwin" }, /Linux/],
  ["system", { arch: "ia32" }, /x64 and arm64/],
  ["user", { root: false }, /needs root/, "sudo sandkeep serve"],
  ["privileges", { lackingCapabilities: ["SYS_ADMIN"] }, /CAP_SYS_ADMIN/, "run the container with --privileged"],
  ["kernel", { kernel: "5.15.0" }, /cannot map/],
  ["user namespaces", { userNamespaces: false }, /off/, "sysctl -w user.max_user_namespaces=65536"],
  ["seccomp", { seccomp: false }, /CONFIG_SECCOMP/],
  ["overlayfs", { overlay: false }, /not there/, "modprobe overlay"],
  [
    "cgroups",
    { cgroups: { version: 2, controllers: ["cpu"] } },
    /no controller for memory, pids/,
    "mount -t cgroup2 none /sys/fs/cgroup",
  ],
  ["network", { nftables: false, tproxy: false }, /no nf_tables and no nft_tproxy/, "modprobe -a nf_tables nft_tproxy"],
  ["network", { tproxy: false }, /no nft_tproxy/, "modprobe -a nft_tproxy"],
  [
    "native program",
    { guest: { compiled: false, compiler: false } },
    /no C compiler/,
    "apt-get install -y --no-install-recommends gcc libc6-dev make",
  ],
  ["store", { store: { ...good.store, writable: false } }, /cannot be written/],
  ["disk", { store: { ...good.store, free: 1e6 } }, /only 1 MB free: too little for a daemon to start/],
  ["TLS", { tls: { names: [], validTo: 0, problems: [], error: "Cannot use SANDKEEP_TLS_KEY" } }, /SANDKEEP_TLS_KEY/],
  ["Node", { node: "20.1.0" }, /too old/, "npm start, which brings its own Node 24"],
])("without a requirement no sandbox can run: %s %j", (name, facts, detail, fix) => {
  const { ok, isolation, findings } = diagnose({ ...good, ...facts });
  const bad = findings.filter(({ state }) => state !== "ok");
  expect([ok, isolation]).toEqual([false, []]);
  expect(bad).toMatchObject([{ name, state: "missing", detail: expect.stringMatching(detail) }]);
  expect(bad[0]?.fix).toBe(fix);
});

test.each<[string, Partial<HostFacts>, RegExp, string?]>([
  ["kernel", { kernel: "5.19.0" }, /tested from 6\.1/],
  ["limits inside", { fuse: false }, /\/dev\/fuse is missing: .* as they were at the start/, "modprobe fuse"],
  ["pauses", { freezer: false }, /a pause keeps files only/, "mount -t cgroup2 none /sys/fs/cgroup/unified"],
  [
    "clock inside",
    { timeNamespaces: false },
    /count from the start of the host/,
    "sysctl -w user.max_time_namespaces=65536",
  ],
  [
    "egress log",
    { lackingLogs: ["nft_log"] },
    /no nft_log: the log does not show what deny-all refuses/,
    "modprobe -a nft_log",
  ],
  [
    "store",
    { store: { ...good.store, mkfs: false } },
    /plain folder/,
    "apt-get install -y --no-install-recommends btrfs-progs",
  ],
  ["store", { store: { ...good.store, btrfs: false } }, /no btrfs/, "modprobe btrfs"],
  ["store", { store: { ...good.store, loop: false } }, /loop/, "modprobe loop"],
  ["disk", { store: { ...good.store, free: 3e9 } }, /only 3 GB free, with a reserve of 2 GB/],
  [
    "disk",
    { store: { ...good.store, free: 1e9 } },
    /1 GB free, less than the reserve of 2 GB: sandboxes cannot grow/,
    "du -xh /d | sort -h | tail",
  ],
  ["store", { store: { ...good.store, readOnly: true } }, /read-only, because a write to its disk failed/],
  [
    "kernel.pid_max",
    { limits: { ...good.limits, processes: 10_000 } },
    /32768 is too small if 10 sandboxes/,
    "sysctl -w kernel.pid_max=104096",
  ],
  [
    "kernel.pty.max",
    { limits: { ...good.limits, sandboxes: 50 } },
    /4096 is too small if 50 sandboxes/,
    "sysctl -w kernel.pty.max=4224",
  ],
  ["TLS", { tls: { names: ["a.example"], validTo: 0, problems: ["It has expired"] } }, /It has expired/],
  ["builds", { builds: ["The launcher (process 7) is of another build"] }, /process 7/, "sandkeep upgrade"],
  ["memory", { memory: { total: 1e9, available: 5e8, swap: 0 } }, /500 MB of 1 GB available, no swap/],
  [
    "packages",
    { packages: [{ name: "git", why: "is git inside" }] },
    /missing: git, which is git inside/,
    "apt-get install -y --no-install-recommends git",
  ],
])("without an option a sandbox still runs: %s %j", (name, facts, detail, fix) => {
  const { ok, findings } = diagnose({ ...good, ...facts });
  const bad = findings.filter(({ state }) => state !== "ok");
  expect(ok).toBe(true);
  expect(bad).toMatchObject([{ name, state: "warning", detail: expect.stringMatching(detail) }]);
  expect(bad[0]?.fix).toBe(fix);
});

test("a store on btrfs needs neither mkfs nor loop devices", () => {
  const store = { ...good.store, onBtrfs: true, mkfs: false, loop: false };
  expect(diagnose({ ...good, store }).findings.every(({ state }) => state === "ok")).toBe(true);
});

test("the exit code says whether sandboxes can run, as text and as JSON", async () => {
  const bad = { ...good, overlay: false };
  expect(await examined([], good)).toMatchObject({ code: 0, text: expect.stringContaining("Sandboxes can run here") });
  const shown = await examined([], bad);
  expect(shown).toMatchObject({ code: 1, text: expect.stringContaining("NO  overlayfs") });
  expect(shown.text).toContain("run: modprobe overlay");
  const { code, text } = await examined(["--json"], bad);
  expect([code, JSON.parse(text)]).toMatchObject([1, { ok: false, facts: { overlay: false } }]);
  await expect(examined(["--what"], good)).rejects.toThrow(/Unknown option '--what'/);
});

test("this host can be examined, whatever it is", () => {
  const facts = readHost({
    dataDir: "/nowhere/to/be/found",
    compiled: false,
    kernelHas: () => true,
    cgroupControllers: () => [],
    onPath: () => false,
    builds: [],
    packages: [],
    reserve: () => ({ reserve: 1, held: 0 }),
    isReadOnly: () => false,
    limits: { sandboxes: 7, processes: 8 },
    serveAsRoot: "sudo sandkeep serve",
  });
  expect(facts).toMatchObject({
    platform: "linux",
    guest: { compiled: false },
    limits: { sandboxes: 7, processes: 8 },
    store: { path: "/nowhere/to/be/found" },
  });
  expect(facts.memory.total).toBeGreaterThan(facts.memory.available);
  expect(facts.store.free).toBeGreaterThan(0);
});

async function examined(args: string[], facts: HostFacts): Promise<{ code: number; text: string }> {
  const lines: string[] = [];
  const code = await doctorCommand(args, { facts: () => facts, print: (line) => void lines.push(line) });
  return { code, text: lines.join("\n") };
}
