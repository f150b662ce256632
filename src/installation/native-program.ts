/**
 * The native program, compiled from guest/. In a clone `npm start` compiles it. An installed package compiles it at its
 * first start, because npm cannot rely on a compiler at installation. The result is in the package's folder, so that it
 * is removed with the package, or in the data directory if another user owns that folder.
 */

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { advice, type HostNeed, missing } from "../../scripts/host-needs.mjs";
import { SandkeepError } from "../core/model/errors.ts";

export interface NativePlaces {
  /** the package's folder */
  root: string;
  dataDir: string;
}

export interface CompileOptions extends NativePlaces {
  /** what compiling needs and this host lacks */
  lacking?: HostNeed[];
  say(sentence: string): void;
}

const name = "sandkeep-guest";

/** its path, if it is compiled */
export function findNativeProgram({ root, dataDir }: NativePlaces): string | undefined {
  return [packageFolder(root), dataFolder(root, dataDir)]
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));
}

/** its path; compiles it if necessary */
export async function nativeProgram(options: CompileOptions): Promise<string> {
  const { root, dataDir, lacking = missing(["run"]).filter(isForCompiling), say } = options;
  const found = findNativeProgram(options);
  if (found !== undefined) return found;
  if (lacking.length > 0)
    throw new SandkeepError("unsupported", ["Cannot compile the native program", ...advice(lacking)].join("\n"));
  const folder = isOwn(root) ? packageFolder(root) : dataFolder(root, dataDir);
  say(`Compiling the native program into ${folder}, once for this version`);
  await compile(join(root, "guest"), folder);
  return join(folder, name);
}

export function isForCompiling({ why }: HostNeed): boolean {
  return why === "compiles guest/";
}

async function compile(sources: string, folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  removeAbandoned(folder);
  let make: ChildProcessByStdio<null, null, Readable> | undefined;
  // Before there is anything that a signal could leave behind.
  using interruption = new Interruption(() => {
    if (make?.pid !== undefined && make.exitCode === null) process.kill(-make.pid, "SIGTERM");
  });
  // Two processes may compile at the same time; either result is fine.
  const build = mkdtempSync(join(folder, `make-${process.pid}-`));
  // A group of its own, so that compilers end with it.
  make = spawn("make", ["-s", "-C", sources, `BUILD=${build}`], {
    detached: true,
    stdio: ["ignore", "ignore", "pipe"],
  });
  try {
    const [said, [code]] = await Promise.all([text(make.stderr), once(make, "close")]);
    if (interruption.signal !== undefined) throw refusal(`${interruption.signal} ended it`);
    if (code !== 0) throw refusal(`make failed\n${said}`.trimEnd());
    renameSync(join(build, name), join(folder, name));
  } finally {
    rmSync(build, { recursive: true, force: true });
  }
}

function refusal(why: string): SandkeepError {
  return new SandkeepError("unsupported", `Cannot compile the native program: ${why}`);
}

/** removes what processes left that were killed while they compiled */
function removeAbandoned(folder: string): void {
  for (const entry of readdirSync(folder)) {
    const [, pid] = /^make-(?:(\d+)-)?\w{6}$/.exec(entry) ?? [];
    if (entry.startsWith("make-") && !(pid !== undefined && existsSync(`/proc/${pid}`)))
      rmSync(join(folder, entry), { recursive: true, force: true });
  }
}

/** Calls a function instead of ending this process at a signal, until it is disposed of. */
class Interruption implements Disposable {
  /** the first signal that came */
  signal: NodeJS.Signals | undefined;
  readonly #onSignal: (signal: NodeJS.Signals) => void;

  constructor(end: () => void) {
    this.#onSignal = (signal) => {
      this.signal ??= signal;
      end();
    };
    for (const signal of interruptions) process.on(signal, this.#onSignal);
  }

  [Symbol.dispose](): void {
    for (const signal of interruptions) process.off(signal, this.#onSignal);
  }
}

const interruptions = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

function packageFolder(root: string): string {
  return join(root, "guest/build");
}

/** a folder for each version of the sources, because it outlives the package */
function dataFolder(root: string, dataDir: string): string {
  const guest = join(root, "guest");
  const hash = createHash("sha256");
  for (const file of readdirSync(guest, { recursive: true, encoding: "utf8" })
    .filter((entry) => /\.[ch]$|^Makefile$/.test(entry))
    .sort())
    hash.update(`${file}\0`).update(readFileSync(join(guest, file)));
  return join(dataDir, "native", `${process.arch}-${hash.digest("hex").slice(0, 16)}`);
}

/** Whether the package's folder is ours: another user could not remove files that root leaves in theirs. */
function isOwn(root: string): boolean {
  if (statSync(root).uid !== process.getuid?.()) return false;
  try {
    mkdirSync(packageFolder(root), { recursive: true });
    return true;
  } catch {
    return false;
  }
}
