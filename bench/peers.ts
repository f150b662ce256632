/** Comparable tools, started from Node as a program would start them: the reference for our times. */

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Subject } from "./measure.ts";

/** runs a program to its first output, or to its end if it prints nothing */
export function firstOutput(command: string, args: string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
    let complaint = "";
    child.stdout.once("data", () => resolve());
    child.stderr.on("data", (chunk) => {
      complaint += chunk;
    });
    child.on("error", reject);
    child.on("close", (code) => (code === 0 ? resolve() : reject(new Error(`${command}: ${complaint || code}`))));
  });
}

const everything = ["--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"];

export function bubblewrap(program: string[]): Subject {
  return { name: "bwrap --unshare-all", run: () => firstOutput("bwrap", [...everything, ...program]).then(nothing) };
}

export function unshare(program: string[]): Subject {
  const args = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "--ipc", "--uts", ...program];
  return { name: "unshare", run: () => firstOutput("unshare", args).then(nothing) };
}

export function host(program: [string, ...string[]]): Subject {
  const [command, ...args] = program;
  return { name: "spawn, no isolation", run: () => firstOutput(command, args).then(nothing) };
}

/**
 * crun run on a bundle below `folder`; undefined if this host lacks crun or crun refuses it. crun does not support
 * hosts with both cgroup versions, so it gets a mount namespace without the second one.
 */
export function crun(folder: string, program: string[]): Subject | undefined {
  const bundle = join(folder, "bundle");
  mkdirSync(join(bundle, "rootfs"), { recursive: true });
  if (spawnSync("crun", ["spec"], { cwd: bundle }).status !== 0) return undefined;
  writeFileSync(join(bundle, "config.json"), JSON.stringify(crunConfig(program)));
  let count = 0;
  const run = () => {
    count++;
    const id = `bench-${process.pid}-${count}`;
    return firstOutput("unshare", ["--mount", "sh", "-c", crunLine(bundle, id)]).then(nothing);
  };
  const works = spawnSync("unshare", ["--mount", "sh", "-c", crunLine(bundle, `bench-probe-${process.pid}`)]);
  if (works.status !== 0) {
    rmSync(bundle, { recursive: true, force: true });
    return undefined;
  }
  return { name: "crun run", run };
}

/** a command line in a mount namespace of its own; the host's root is its root too, as with the others */
function crunLine(bundle: string, id: string): string {
  const hide = "umount /sys/fs/cgroup/unified 2>/dev/null";
  return `${hide}; mount --bind / ${bundle}/rootfs && exec crun run --bundle ${bundle} ${id}`;
}

function crunConfig(program: string[]): object {
  const namespaces = ["pid", "network", "ipc", "uts", "mount"].map((type) => ({ type }));
  return {
    ociVersion: "1.0.2",
    process: { terminal: false, user: { uid: 0, gid: 0 }, args: program, env: ["PATH=/usr/bin:/bin"], cwd: "/" },
    root: { path: "rootfs", readonly: true },
    mounts: [{ destination: "/proc", type: "proc", source: "proc" }],
    linux: { namespaces },
  };
}

/** a command in a running sandbox, by nsenter */
export function nsenter(pid: number, program: string[]): Subject {
  return { name: "nsenter", run: () => firstOutput("nsenter", ["-t", `${pid}`, "-a", ...program]).then(nothing) };
}

function nothing(): undefined {
  return undefined;
}
