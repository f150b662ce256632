/** A Linux runtime for a whole test file, and the check at its end that it left nothing on the host. */

import { afterAll, beforeAll, expect } from "vitest";
import { eventually } from "./harness.ts";
import { type RuntimeOptions, type TestRuntime, withRuntime } from "./machine.ts";
import { cgroupsOf, entries, isAlive, loopDevicesOn, mountsOf, parentOf, processesOf, read } from "./traces.ts";

/** the runtime of this test file: opened before its first test, and gone without a trace after its last */
export function linuxHost(options: RuntimeOptions = {}): () => TestRuntime {
  const undo = new AsyncDisposableStack();
  let host: TestRuntime | undefined;
  beforeAll(async () => {
    host = await withRuntime(undo, options);
  });
  afterAll(async () => {
    const directory = host?.directory;
    const before = directory === undefined ? [] : processesOf(directory);
    await undo.disposeAsync();
    if (directory !== undefined) await expectNothingLeft(directory, before);
  });
  return () => {
    if (!host) throw new Error("The runtime of these tests did not open");
    return host;
  };
}

/** the first process of a machine, as the host sees it */
export function agentPid(host: TestRuntime, machineId: string): number {
  return host.runtime.firstProcess(machineId);
}

/** the launcher is the only process of the runtime that descends from no other one */
export function launcherPid(host: TestRuntime): number {
  const all = processesOf(host.directory);
  const pid = all.find(
    (candidate) => !all.includes(parentOf(candidate) ?? 0) && /\0launch\0/.test(read(`/proc/${candidate}/cmdline`)),
  );
  if (pid === undefined) throw new Error("The runtime has no launcher");
  return pid;
}

/** the launcher's children that stay to copy volumes and to take mounts apart; it has one descriptor for each */
export function stayersOf(launcher: number): number[] {
  const children = read(`/proc/${launcher}/task/${launcher}/children`).trim().split(" ").map(Number);
  return children.filter((pid) => pid > 0 && /^sandkeep-(copier|mounts)$/m.test(read(`/proc/${pid}/comm`)));
}

/** the launcher's child that holds the sockets of all machines; undefined while there is none */
export function netdPid(host: TestRuntime): number | undefined {
  return processesOf(host.directory).find((pid) => read(`/proc/${pid}/comm`) === "sandkeep-netd\n");
}

/** checks that no cgroup, mount, loop device or process of the runtime on this data directory is left */
export async function expectNothingLeft(dataDir: string, pids: number[]): Promise<void> {
  await eventually("nothing of the runtime is left", () => {
    expect(cgroupsOf(dataDir)).toEqual([]);
    expect(mountsOf(dataDir)).toEqual([]);
    expect(loopDevicesOf(dataDir)).toEqual([]);
    expect([...processesOf(dataDir), ...pids.filter(isAlive)]).toEqual([]);
    return true;
  });
}

/**
 * If the host's mounts are private, a launcher that another test started meanwhile holds our store in its own mount
 * namespace for as long as it lives; the device goes away with it.
 */
function loopDevicesOf(dataDir: string): string[] {
  const devices = loopDevicesOn(dataDir);
  return devices.length > 0 && isSeenElsewhere(dataDir) ? [] : devices;
}

function isSeenElsewhere(dataDir: string): boolean {
  return entries("/proc").some((pid) => /^\d+$/.test(pid) && read(`/proc/${pid}/mountinfo`).includes(`${dataDir}/`));
}
