/** What the security suites share: running programs inside a machine, and compiling the native test programs. */

import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rename, stat } from "node:fs/promises";
import { join, parse } from "node:path";
import type { ExecSpec, ExitStatus, Machine, Process } from "../../src/core/ports/runtime.ts";
import { compileGuest, guest, sanitizers } from "../harness/guest/guest-program.ts";

/** the users of the tests: root inside, and a plain user by number */
export const users = ["root", "1000"] as const;
export type User = (typeof users)[number];

export interface Result {
  code: number;
  /** standard output and standard error, in order */
  out: string;
  status: ExitStatus;
}

/** Runs a program inside and waits for its end. */
export async function run(
  machine: Machine,
  user: User,
  argv: string[],
  options: Omit<ExecSpec, "id" | "argv" | "user"> = {},
): Promise<Result> {
  const command = await machine.exec({ cwd: "/", timeLimit: 120_000, ...options, id: randomUUID(), argv, user });
  const chunks: Uint8Array[] = [];
  for await (const chunk of command.output()) chunks.push(chunk.data);
  const status = await command.exited;
  return { code: status.code, out: Buffer.concat(chunks).toString(), status };
}

/** Runs a shell line inside and returns its output; fails if the line fails. */
export async function shell(machine: Machine, user: User, line: string): Promise<string> {
  const { code, out } = await run(machine, user, ["sh", "-c", line]);
  if (code !== 0) throw new Error(`Cannot run "${line}" inside: it exited with ${code} and said "${out.trim()}"`);
  return out;
}

/** Starts a program inside that keeps running. */
export function begin(
  machine: Machine,
  user: User,
  argv: string[],
  options: Omit<ExecSpec, "id" | "argv" | "user"> = {},
): Promise<Process> {
  return machine.exec({ cwd: "/", ...options, id: randomUUID(), argv, user });
}

/** The first line that a command prints; the command may keep running. */
export async function firstLine(command: Process): Promise<string> {
  let said = "";
  for await (const chunk of command.output()) {
    said += Buffer.from(chunk.data).toString();
    if (said.includes("\n")) break;
  }
  return said;
}

/** The whole content of a stream, as text. */
export async function text(stream: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** A program of guest/test/, compiled when it is older than its sources; its path. */
export async function nativeProgram(name: NativeProgram): Promise<string> {
  const sources = await sourcesOf(name);
  const binary = join(guest, "build/test", name);
  const built = await modifiedAt(binary);
  const files = [...sources.map((source) => `${source}.c`), ...headers].map((file) => join(guest, file));
  const changed = await Promise.all(files.map(modifiedAt));
  if (built > Math.max(...changed)) return binary;
  await mkdir(join(guest, "build/test"), { recursive: true });
  // Suites run at the same time: each compiles to a name of its own, and the last to finish wins.
  const fresh = `${binary}.${process.pid}`;
  const flags = name.endsWith("-sanitize")
    ? sanitizers
    : ["-static", ...(name === "grants_test" ? ["-Wl,--wrap=fork"] : [])];
  await compileGuest(fresh, sources, flags);
  await rename(fresh, binary);
  return binary;
}

/** Puts a native program into a machine, executable by all users; returns its path there. */
export async function install(machine: Machine, name: NativeProgram): Promise<string> {
  const path = `/usr/local/bin/${name}`;
  await machine.files().write(path, await readFile(await nativeProgram(name)), { mode: 0o755, parents: true });
  return path;
}

type NativeProgram =
  | "probe"
  | "hog"
  | "channel"
  | "grants_test"
  | "seccomp_test"
  | "seccomp_test-sanitize"
  | "seccomp_run";

const grantSources = [
  ...["agent/grants", "agent/caller", "confinement/filters", "confinement/socket_count", "shared/loop"],
  ...["fuse", "view", "view_disk", "view_source"].map((name) => `view/${name}`),
];
const filterSources = ["confinement/seccomp", "confinement/seccomp_check"];
const headers = [
  ...["filter_program.h", "seccomp.h", "seccomp_check.h", "syscalls.h", "caps.h"].map((name) => `confinement/${name}`),
  "test/probes/probe.h",
];

async function sourcesOf(name: NativeProgram): Promise<string[]> {
  if (name === "hog" || name === "channel") return [`test/${name}`];
  if (name === "seccomp_run") return ["test/seccomp_run", ...filterSources, "confinement/caps"];
  if (name === "grants_test") return [`test/${name}`, ...grantSources];
  if (name !== "probe") return ["test/seccomp_test", ...filterSources];
  const files = await readdir(join(guest, "test/probes"));
  return files.filter((file) => /^probe(_\w+)?\.c$/.test(file)).map((file) => join("test/probes", parse(file).name));
}

async function modifiedAt(path: string): Promise<number> {
  return stat(path).then(
    (facts) => facts.mtimeMs,
    () => 0,
  );
}
