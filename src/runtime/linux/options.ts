/** The options of a Linux runtime, and their defaults. */

import type { ImageConventions } from "../../core/model/conventions.ts";
import type { EgressSettings } from "../../core/ports/egress-settings.ts";
import type { Limits } from "../../core/ports/runtime.ts";
import type { Bounds, Durability } from "./components.ts";
import type { LogError, Warn } from "./host/launcher-log.ts";
import type { PoolSize } from "./machines/pool.ts";
import type { PullerOptions } from "./registry/puller.ts";
import type { DiskRoom } from "./storage/disk-room.ts";
import type { StorageOptions } from "./storage/storage.ts";

export interface LinuxOptions extends Bounds {
  dataDir: string;
  /** what images are set up with */
  conventions: ImageConventions;
  /** where sockets are; a tmpfs; default /run/sandkeep */
  runRoot?: string;
  /** the guest binary */
  guest: string;
  /** command line of the egress process */
  egress: string[];
  /** its environment */
  egressEnv?: Record<string, string>;
  /** the operator's egress settings; without them a running egress process keeps its own */
  egressSettings?: () => EgressSettings;
  /** PEMs that programs in the image "host" believe besides the host's own list */
  roots?: readonly string[];
  storage?: Omit<StorageOptions, "dataDir">;
  /** what watches the disk of the data directory; default nothing */
  room?: DiskRoom;
  /** sizes of the pools; default none */
  pool?: PoolSize;
  /** where images are pulled from that callers name; default nowhere */
  registries?: PullerOptions | undefined;
  /** what hot prepared machines are booted from; default "host" */
  defaultImage?: string;
  limits?: Partial<Limits>;
  /** what an acknowledged stop or snapshot survives; default the loss of power */
  durability?: Durability;
  /** which boot of the host this is: machines of another one cannot be alive; default the one that the kernel says */
  bootId?: string;
  /** called with errors of background work, and with the machine or the process that they are about */
  logError?: LogError;
  /** called with what the operator should know, such as that a process died and another took its place; default logError */
  warn?: Warn;
  /** called with a sentence before each step of a first start that takes seconds */
  progress?: (sentence: string) => void;
}

const gibibyte = 2 ** 30;
export const defaultLimits: Limits = { vcpus: 2, memory: 4 * gibibyte, pids: 4096, disk: 32 * gibibyte };
