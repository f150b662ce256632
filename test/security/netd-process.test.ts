/** netd, as an attacker inside it would find it: its user, what it sees, and what it cannot do. */

import { execFile } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { egressUser, netdUser } from "../../src/runtime/linux/machines/plan.ts";
import { daemonOfFile } from "../harness/daemon.ts";
import { compileGuest } from "../harness/guest/guest-program.ts";
import { eventually, tempDir } from "../harness/harness.ts";

const run = promisify(execFile);
const daemon = daemonOfFile();

test("is a user of its own, not the egress process's, without a capability, and behind a filter", async () => {
  const status = readFileSync(`/proc/${await netdPid()}/status`, "utf8");
  const field = (name: string) => new RegExp(`^${name}:[ \\t]*(.*)$`, "m").exec(status)?.[1]?.split(/\s+/);
  const user = String(netdUser);
  expect(netdUser).not.toBe(egressUser);
  expect(field("Uid")).toEqual([user, user, user, user]);
  expect(field("Gid")).toEqual([user, user, user, user]);
  expect((field("Groups") ?? []).filter((group) => group !== "")).toEqual([]);
  for (const set of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
    expect(field(set)).toEqual(["0000000000000000"]);
  expect(field("NoNewPrivs")).toEqual(["1"]);
  expect(field("Seccomp")).toEqual(["2"]);
});

test("has an empty root that is read-only, and a mount namespace with nothing else in it", async () => {
  const pid = await netdPid();
  expect(readdirSync(`/proc/${pid}/root/`)).toEqual([]);
  expect(statSync(`/proc/${pid}/root/`).ino).not.toBe(statSync("/").ino);
  const mounts = readFileSync(`/proc/${pid}/mountinfo`, "utf8").trim().split("\n");
  expect(mounts.map((line) => line.split(" ").slice(4, 6).join(" "))).toEqual([
    expect.stringMatching(/^\/ ro,nosuid,nodev/),
  ]);
});

test("has no descriptor of a file or a folder, except its error log", async () => {
  const folder = `/proc/${await netdPid()}/fd`;
  const open = readdirSync(folder).map((name) => targetOf(join(folder, name)));
  const files = open.filter((path) => path.startsWith("/") && !path.startsWith("/dev/null"));
  expect(files.filter((path) => !path.includes("launcher.log"))).toEqual([]);
});

test("makes only the calls of its loop: it opens no file, program, process, or socket that leads to the host", async () => {
  const program = join(await tempDir(), "netd_confine_test");
  const sources = [
    "test/netd_confine_test",
    "netd/netd_process",
    "egress/egress_root",
    "confinement/allow_list",
    "confinement/caps",
  ];
  await compileGuest(program, sources, ["-static"]);
  const { stdout } = await run(program, { env: { SANDKEEP_NETD_UID: String(netdUser) } });
  expect(stdout.trim().split("\n")).toEqual([
    "datagrams: allowed",
    "a pair of sockets: allowed",
    "memory: allowed",
    "memory for programs: EPERM",
    "memory made for programs: EPERM",
    "a file: ENOSYS",
    "a unix socket: EAFNOSUPPORT",
    "routing: EAFNOSUPPORT",
    "packets: EAFNOSUPPORT",
    "a process: ENOSYS",
    "another program: ENOSYS",
    "a signal: ENOSYS",
    "a namespace: ENOSYS",
    "a mount: ENOSYS",
    "tracing: ENOSYS",
    "another user: ENOSYS",
  ]);
});

/** the parent of the keeper, which is the parent of the egress process */
function netdPid(): Promise<number> {
  return eventually("netd runs", () => {
    const pids = readdirSync("/proc").map(Number).filter(Number.isInteger);
    const own = pids.filter((pid) =>
      textOf(`/proc/${pid}/environ`).includes(`SANDKEEP_EGRESS_SETTINGS=${daemon().runDir}/`),
    );
    return own.find((pid) => textOf(`/proc/${pid}/comm`).trim() === "sandkeep-netd");
  });
}

/** empty if the process is gone by now */
function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

/** the target of a descriptor, as the kernel shows it; nothing if it is closed by now */
function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return "";
  }
}
