/** The allowed state of a daemon's host after any fault: one of each process, one mount, one loop device. */

import { expect } from "vitest";
import { eventually } from "../harness/harness.ts";
import { cgroupsOf, loopDevicesOn, mountsOf } from "../harness/traces.ts";
import { firstProcesses, processesCalled, type Scene } from "./scene.ts";

const ours = ["sandkeep-guest", "sandkeep-netd", "sandkeep-keeper", "sandkeep-egress"];

export async function expectNothingStray(scene: Scene): Promise<void> {
  const { dataDir } = scene.daemon;
  await eventually("nothing is left over", () => {
    for (const name of ours) expect([name, processesCalled(scene, name).length]).toEqual([name, 1]);
    const store = `${dataDir}/store`;
    expect(mountsOf(dataDir).map((line) => line.split(" ")[4])).toEqual([store, `${store}/monitor/mount`]);
    expect(loopDevicesOn(dataDir)).toHaveLength(1);
    expect(cgroupsOf(dataDir).length).toBeGreaterThan(0);
    expect(firstProcesses(scene).filter(({ pid }) => !isAlive(pid))).toEqual([]);
    return true;
  });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
