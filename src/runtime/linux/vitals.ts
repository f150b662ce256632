/** The numbers that an operator watches, as the components of the runtime have them. */

import type { Vitals } from "../../core/ports/vitals.ts";
import type { Components } from "./components.ts";
import { kernelText } from "./host/kernel-file.ts";
import type { DiskRoom } from "./storage/disk-room.ts";

type Watched = Pick<Components, "machines" | "pool" | "processorWatch" | "filesWatch" | "tcpWatch">;

export function vitalsOf({ machines, pool, ...watches }: Watched, room?: DiskRoom): Vitals {
  const live = [...machines.live.values()];
  const paused = live.filter(({ isPaused }) => isPaused).length;
  return {
    machines: { running: live.length - paused, paused, ...pool.size },
    processors: watches.processorWatch.reading(),
    memory: memoryOf(kernelText("/proc/meminfo")),
    ...(room && { disk: { places: room.places, isGrowthStopped: room.isShort } }),
    openFiles: watches.filesWatch.reading(),
    tcpMemory: watches.tcpWatch.reading(),
  };
}

/** of lines "MemTotal:  16384 kB" */
export function memoryOf(meminfo: string): Vitals["memory"] {
  const bytes = (name: string) => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(meminfo)?.[1] ?? 0);
  return { total: bytes("MemTotal"), available: bytes("MemAvailable") };
}
