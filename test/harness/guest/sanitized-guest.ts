/** The guest built with the address and undefined behaviour sanitisers, and their reports. */

import { mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { demand } from "../../runner/needs.ts";
import { eventually, type Undo } from "../harness.ts";
import { makeSanitizedGuest } from "./guest-program.ts";

export interface SanitizedGuest {
  binary: string;
  /** for the launcher, which starts every other process of the guest */
  env: Record<string, string>;
  /**
   * The sanitisers' reports, once no process of the guest is left: the launcher checks for leaks at its end. An agent
   * that they stop has no file to write to: its machine ends with the cause "crash" instead.
   */
  reports(): Promise<string[]>;
}

export async function sanitizedGuest(undo: Undo): Promise<SanitizedGuest> {
  demand("the command make", "the command cc");
  const folder = await mkdtemp(join(tmpdir(), "sandkeep-test-"));
  undo.defer(() => rm(folder, { recursive: true, force: true }));
  const binary = join(folder, "sandkeep-guest-sanitize");
  await makeSanitizedGuest(binary);
  const options = `log_path=${join(folder, "report")}:halt_on_error=1`;
  return {
    binary,
    env: { ASAN_OPTIONS: `${options}:quarantine_size_mb=8`, UBSAN_OPTIONS: `${options}:print_stacktrace=1` },
    async reports() {
      await eventually("the end of every process of the guest", async () => (await processesOf(binary)).length === 0);
      const names = (await readdir(folder)).filter((name) => name.startsWith("report"));
      return Promise.all(names.map((name) => readFile(join(folder, name), "utf8")));
    },
  };
}

async function processesOf(binary: string): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const programs = await Promise.all(pids.map((pid) => readlink(`/proc/${pid}/exe`).catch(() => "")));
  return pids.filter((_, i) => programs[i] === binary);
}
