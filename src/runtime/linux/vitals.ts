/** The numbers that an operator watches, as the components of the runtime have them. */

import type { Vitals } from "../../core/ports/runtime.ts";
import type { Components } from "./components.ts";
import type { DiskRoom } from "./storage/disk-room.ts";

type Watched = Pick<Components, "pool" | "filesWatch" | "tcpWatch">;

export function vitalsOf({ pool, filesWatch, tcpWatch }: Watched, running: number, room?: DiskRoom): Vitals {
  return {
    machines: { running, ...pool.size },
    ...(room && { disk: { places: room.places, isGrowthStopped: room.isShort } }),
    openFiles: filesWatch.reading(),
    tcpMemory: tcpWatch.reading(),
  };
}
