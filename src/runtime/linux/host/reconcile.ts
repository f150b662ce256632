/** What is really on the host of this runtime, to be held against the ledger. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Discrepancy } from "../../../core/ports/runtime.ts";
import type { HostResource } from "../../../protocols/ledger-line.ts";
import type { LaunchedMachine } from "../guest-wire/launcher.ts";
import type { Places } from "../machines/plan.ts";
import { monitorPoint } from "../storage/write-monitor.ts";
import { existingCgroups } from "./cgroup.ts";

export interface HostState {
  places: Places;
  /** the runtime's own folder in each cgroup tree */
  cgroupParents: string[];
  launched: LaunchedMachine[];
  /** for the mounts that only the launcher sees */
  launcherPid: number;
}

/** how often a discrepancy must be seen to be one, and how far apart in ms */
const looks = 10;
const apart = 50;

/** machines come and go during the comparison: only differences that last are reported */
export async function lasting(compare: () => Promise<Discrepancy[]>): Promise<Discrepancy[]> {
  let found = await compare();
  for (let i = 1; i < looks && found.length > 0; i++) {
    await pause(apart);
    const again = new Set((await compare()).map((one) => JSON.stringify(one)));
    found = found.filter((one) => again.has(JSON.stringify(one)));
  }
  return found;
}

export function realResources(reality: HostState): HostResource[] {
  const { places } = reality;
  return [
    ...existingCgroups(reality.cgroupParents).map((name): HostResource => ({ kind: "cgroup", name })),
    ...entries(places.machines).map((name): HostResource => ({ kind: "directory", name })),
    ...entries(places.sockets).map((name): HostResource => ({ kind: "socket", name })),
    ...reality.launched.map(({ name }): HostResource => ({ kind: "namespace", name })),
    ...strayMounts(reality).map((name): HostResource => ({ kind: "mount", name })),
  ];
}

/** mounts below our folders, in the host's view and in the launcher's, but for those that belong there */
function strayMounts({ places, launcherPid }: HostState): string[] {
  const expected = new Set([places.store, monitorPoint(places.store), join(places.run, "dev")]);
  const points = ["self", `${launcherPid}`].flatMap((pid) => mountPoints(`/proc/${pid}/mountinfo`));
  const below = (point: string) =>
    [places.store, places.run].some((root) => point === root || point.startsWith(`${root}/`));
  return [...new Set(points.filter((point) => below(point) && !expected.has(point)))];
}

function mountPoints(file: string): string[] {
  try {
    return readFileSync(file, "utf8")
      .split("\n")
      .flatMap((line) => line.split(" ")[4] ?? []);
  } catch {
    return [];
  }
}

function entries(folder: string): string[] {
  return readdirSync(folder).map((name) => join(folder, name));
}
