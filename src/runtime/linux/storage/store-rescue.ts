/**
 * Brings back a store that the kernel has made read-only, as it does when a write to the disk below fails. Such a file
 * system becomes writable again only when it is mounted anew, so every machine on it ends first. The files of
 * acknowledged stops and snapshots are there afterwards. Of later writes, only those that the kernel had put on the
 * disk survive.
 */

import { readdirSync } from "node:fs";
import { messageOf, SandkeepError } from "../../../core/model/errors.ts";
import { Launcher } from "../guest-wire/launcher.ts";
import { killProcesses, thisHostsCgroups } from "../host/cgroup.ts";
import { type Places, planMachine } from "../machines/plan.ts";
import type { DiskRoom } from "./disk-room.ts";
import {
  closeStorage,
  isReadOnly,
  openStorage,
  remountWritable,
  type Storage,
  type StorageOptions,
} from "./storage.ts";

export interface RescueOptions {
  storage: StorageOptions;
  places: Places;
  /** the guest binary */
  guest: string;
  room?: DiskRoom | undefined;
  /** whether the store has lost data, so that it is mounted anew even if it is writable; default false */
  hasLost?: boolean;
}

/** how long the mounts of ended machines may take to go away, in ms */
const longestUnmount = 15_000;
/** pause between two checks of the store, in ms, and the longest one after failed rescues */
const pause = 1000;
const longestPause = 60_000;

/** the store, mounted writable; if it has failed, ends every machine on it unless a remount is enough */
export async function openWritable({ storage, places, guest, room, hasLost }: RescueOptions): Promise<Storage> {
  const path = places.store;
  const found = await openStorage(storage);
  if (!hasLost) {
    if (!isReadOnly(path)) return found;
    room?.require(`use the store "${path}", which is read-only`);
    await remountWritable(path);
    if (!isReadOnly(path)) return openStorage(storage);
  }
  try {
    await endMachines(places, guest);
    await closeStorage(storage.dataDir, longestUnmount);
  } catch (cause) {
    throw failed(path, `it cannot be unmounted: ${messageOf(cause)}`, cause);
  }
  return mountedAnew(storage, path);
}

/** mounts of machines that have just ended hold the old file system for a moment, and it refuses a writable mount */
async function mountedAnew(storage: StorageOptions, path: string): Promise<Storage> {
  const deadline = Date.now() + longestUnmount;
  for (;;) {
    const opened = await openStorage(storage).catch((error: unknown) => error);
    if (!(opened instanceof Error) && !isReadOnly(path)) return opened as Storage;
    if (Date.now() > deadline)
      throw opened instanceof Error ? opened : failed(path, "is still so after it was mounted again");
    if (!(opened instanceof Error)) await closeStorage(storage.dataDir, longestUnmount);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Starts a rescue, one at a time, whenever the store is read-only and its disk has room. */
export class StoreWatch {
  readonly #needsRescue: () => boolean;
  readonly #rescue: () => Promise<void>;
  readonly #logError: (error: unknown) => void;
  #timer: NodeJS.Timeout | undefined;
  #pause = pause;
  #isClosed = false;

  constructor(options: {
    needsRescue: () => boolean;
    rescue: () => Promise<void>;
    logError: (error: unknown) => void;
  }) {
    this.#needsRescue = options.needsRescue;
    this.#rescue = options.rescue;
    this.#logError = options.logError;
    this.#schedule();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#look().finally(() => this.#schedule()), this.#pause);
    this.#timer.unref();
  }

  async #look(): Promise<void> {
    try {
      if (this.#needsRescue()) await this.#rescue();
      this.#pause = pause;
    } catch (error) {
      this.#logError(error);
      this.#pause = Math.min(this.#pause * 4, longestPause);
    }
  }
}

/** through the running launcher; machines that it does not know end through their cgroups */
async function endMachines(places: Places, guest: string): Promise<void> {
  const { run } = places;
  const launcher = await Launcher.open({ run, binary: guest, egress: ["/bin/true"], env: {}, orphans: () => [] });
  try {
    const known = (await launcher.machines()).map(({ name }) => name);
    const cgroups = thisHostsCgroups();
    for (const name of foldersIn(places.machines)) killProcesses(planMachine(places, cgroups, name, 0).cgroup);
    await Promise.all(known.map((name) => launcher.kill(name)));
  } finally {
    await launcher.shutdown();
  }
}

/** empty where a failed store cannot even be read */
function foldersIn(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function failed(path: string, why: string, cause?: unknown): SandkeepError {
  const how = `look into the kernel's log for what made it so, then run "umount --recursive ${path}" and start again`;
  const what = "it is read-only or has lost data";
  return new SandkeepError("unsupported", `Cannot use the store "${path}": ${what}, and ${why}; ${how}`, { cause });
}
