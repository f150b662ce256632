/** The numbers that an operator watches, as the components of the runtime have them. */

import type { Vitals } from "../../core/ports/runtime.ts";
import type { Components } from "./components.ts";
import type { DiskRoom } from "./storage/disk-room.ts";

type Watched = Pick<Components, "machines" | "pool" | "filesWatch" | "tcpWatch">;

export function vitalsOf({ machines, pool, filesWatch, tcpWatch }: Watched, room?: DiskRoom): Vitals {
  const live = [...machines.live.values()];
  const paused = live.filter(({ isPaused }) => isPaused).length;
  return {
    machines: { running: live.length - paused, paused, ...pool.size },
    ...(room && { disk: { places: room.places, isGrowthStopped: room.isShort } }),
    openFiles: filesWatch.reading(),
    tcpMemory: tcpWatch.reading(),
  };
}
