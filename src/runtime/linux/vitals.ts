/** The numbers that an operator watches, as the parts of the runtime have them. */

import type { Vitals } from "../../core/runtime.ts";
import type { DiskRoom } from "./disk-room.ts";
import type { Parts } from "./parts.ts";

type Watched = Pick<Parts, "pool" | "filesWatch" | "tcpWatch">;

export function vitalsOf({ pool, filesWatch, tcpWatch }: Watched, running: number, room?: DiskRoom): Vitals {
  return {
    machines: { running, ...pool.size },
    ...(room && { disk: { places: room.places, isGrowthStopped: room.isShort } }),
    openFiles: filesWatch.reading(),
    tcpMemory: tcpWatch.reading(),
  };
}
