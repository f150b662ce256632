/** What tests share: a directory that goes away, waiting for a condition, and saying what the host lacks. */

import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { onTestFinished, type TestContext } from "vitest";

/** the repository's root directory */
export const root = join(import.meta.dirname, "..");

/** the native binary, as `make -C guest` leaves it */
export const guestBinary = join(root, "guest/build/sandkeep-guest");

/** Where the undoing of a resource is stacked: an AsyncDisposableStack, or the end of the running test. */
export interface Undo {
  defer(undo: () => Promise<void>): void;
}

const endOfTest: Undo = { defer: (undo) => onTestFinished(undo) };

/** Makes a directory that is removed when the test ends; outside a test, pass the stack that removes it. */
export async function tempDir(undo: Undo = endOfTest): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "sandkeep-test-"));
  undo.defer(() => rm(path, { recursive: true, force: true }));
  return path;
}

/**
 * Waits until `probe` gives something other than undefined or false, and returns it. A probe that throws counts as
 * "not yet"; its error is the cause of the failure when the time is over.
 */
export async function eventually<T>(
  what: string,
  probe: () => T | Promise<T>,
  options: { timeoutMs?: number; everyMs?: number } = {},
): Promise<Exclude<T, undefined | false>> {
  const { timeoutMs = 60_000, everyMs = 10 } = options;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    let cause: unknown;
    try {
      const value = await probe();
      // The check leaves exactly the type that the signature promises; the compiler cannot narrow a bare T.
      if (value !== undefined && value !== false) return value as Exclude<T, undefined | false>;
    } catch (error) {
      cause = error;
    }
    if (performance.now() >= deadline) throw new Error(`Waited ${timeoutMs} ms in vain: ${what}`, { cause });
    await pause(everyMs);
  }
}

/** Something a test cannot do without, written so that it reads after "needs". */
export type Need =
  | "root"
  | "the guest binary"
  | "cgroup v1"
  | "cgroup v2"
  | `the command ${string}`
  | `the file system ${string}`;

/** Skips the test, saying what is lacking, unless the host has all of it. */
export function needs(context: TestContext, ...wanted: Need[]): void {
  const lacking = wanted.filter((need) => !has(need));
  if (lacking.length > 0) context.skip(`needs ${lacking.join(", ")}`);
}

/** Whether this host has what a test needs, for suites that are made in a loop over what there is. */
export function has(need: Need): boolean {
  if (need === "root") return process.getuid?.() === 0;
  if (need === "the guest binary") return existsSync(guestBinary);
  if (need === "cgroup v1") return mounted("cgroup");
  if (need === "cgroup v2") return controllersOfV2().includes("memory");
  if (need.startsWith(COMMAND)) return onPath(need.slice(COMMAND.length));
  return fileSystems().includes(need.slice(FILE_SYSTEM.length));
}

const COMMAND = "the command ";
const FILE_SYSTEM = "the file system ";

function onPath(command: string): boolean {
  // Root's tools are in sbin, which not every PATH has.
  const directories = `${process.env.PATH ?? ""}:/usr/sbin:/sbin`.split(":").filter((directory) => directory !== "");
  return directories.some((directory) => existsSync(join(directory, command)));
}

function fileSystems(): string[] {
  return readFileSync("/proc/filesystems", "utf8")
    .split("\n")
    .map((line) => line.split("\t")[1] ?? "");
}

function mounted(type: string): boolean {
  return mounts().some((mount) => mount.type === type);
}

/** the controllers that a mounted cgroup2 hierarchy owns: on a hybrid host it may own none of ours */
function controllersOfV2(): string[] {
  return mounts()
    .filter((mount) => mount.type === "cgroup2")
    .flatMap((mount) => readFileSync(join(mount.path, "cgroup.controllers"), "utf8").trim().split(" "));
}

function mounts(): { path: string; type: string }[] {
  return readFileSync("/proc/self/mounts", "utf8")
    .trim()
    .split("\n")
    .map((line) => line.split(" "))
    .map(([, path = "", type = ""]) => ({ path, type }));
}
