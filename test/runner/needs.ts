/**
 * The needs of tests on the host. Root and programs are required: bootstrap installs every program of
 * scripts/host-needs.mjs, so a test that lacks one fails. A kernel feature may be missing: then the test is skipped.
 *
 * A test file that imports this one, directly or through another, is not a unit test (see tiers.ts).
 */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "vitest";
import { onPath } from "../../scripts/host-needs.mjs";
import { root } from "../harness/harness.ts";
import { kernelLacks } from "./excuses.ts";

/** Something that a test requires, in words that fit after "needs". */
export type Need = Demanded | KernelFeature;

type Demanded = "root" | "the guest binary" | `the command ${string}`;
type KernelFeature = "cgroup v1" | "cgroup v2" | "time namespaces" | `the file system ${string}`;

/** the native binary that `make -C guest` builds */
export const guestBinary = join(root, "guest/build/sandkeep-guest");

/** Fails the test if the host lacks something that can be installed, and skips it if the kernel lacks the rest. */
export function needs(context: TestContext, ...wanted: Need[]): void {
  demand(...wanted.filter(isDemanded));
  const lacking = wanted.filter((need) => !has(need));
  if (lacking.length > 0) context.skip(kernelLacks(lacking));
}

/** Fails unless the host has all of these, for hooks and fixtures. */
export function demand(...wanted: Demanded[]): void {
  const lacking = wanted.filter((need) => !has(need));
  if (lacking.length > 0) throw new Error(`Cannot run this test: it needs ${lacking.join(", ")}`);
}

/** Whether this host has what a test needs, for suites that loop over the available variants. */
export function has(need: Need): boolean {
  if (need === "root") return process.getuid?.() === 0;
  if (need === "the guest binary") return existsSync(guestBinary);
  if (need === "cgroup v1") return mounted("cgroup");
  if (need === "cgroup v2") return controllersOfV2().includes("memory");
  if (need === "time namespaces") return existsSync("/proc/self/ns/time");
  if (need.startsWith(COMMAND)) return onPath(need.slice(COMMAND.length));
  return fileSystems().includes(need.slice(FILE_SYSTEM.length));
}

const COMMAND = "the command ";
const FILE_SYSTEM = "the file system ";

function isDemanded(need: Need): need is Demanded {
  return need === "root" || need === "the guest binary" || need.startsWith(COMMAND);
}

function fileSystems(): string[] {
  return readFileSync("/proc/filesystems", "utf8")
    .split("\n")
    .map((line) => line.split("\t")[1] ?? "");
}

function mounted(type: string): boolean {
  return mounts().some((mount) => mount.type === type);
}

/** the controllers of a mounted cgroup2 hierarchy: on a hybrid host it may have none of ours */
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
