/**
 * Tracks whether all data that the store has accepted got to its disk. When the disk below the store is full, the
 * kernel drops files' data, and still copies the volume that lacks them. So a capture asks before it is acknowledged,
 * after the kernel has written everything that the capture contains.
 *
 * A store that has lost data counts as failed until it is mounted anew without its machines: none of them may go on with
 * files that exist only in memory.
 */

import { isOfDisk, readOnlyError } from "../guest-wire/failure.ts";
import { isOwnLimit } from "../host/kernel-file.ts";
import type { WriteMonitor } from "./write-monitor.ts";

export interface StoreHealthOptions {
  /** counts what the kernel could not write; undefined where it cannot be had, so that only a flush can tell */
  monitor: Pick<WriteMonitor, "hasLost"> | undefined;
  /** flushes the store; rejects if the kernel could not write something that it has not reported yet */
  sync: () => Promise<void>;
  /** whether the kernel has made the store read-only, as it does after an error */
  isReadOnly: () => boolean;
}

export class StoreHealth {
  readonly #options: StoreHealthOptions;
  /** the kernel reports a loss to a flush only once */
  #hasLost = false;

  constructor(options: StoreHealthOptions) {
    this.#options = options;
  }

  get hasFailed(): boolean {
    return this.#hasLost || (this.#options.monitor?.hasLost() ?? false) || this.#isReadOnly();
  }

  /** false where this process has no descriptor left to look: the end of a machine must not fail for that */
  #isReadOnly(): boolean {
    try {
      return this.#options.isReadOnly();
    } catch (error) {
      if (isOwnLimit(error)) return false;
      throw error;
    }
  }

  /** every flush of the daemon goes through here; `sync` may flush more of the host than the store */
  async flush(sync = this.#options.sync): Promise<void> {
    try {
      await sync();
    } catch (error) {
      if (isOfDisk(error)) this.#hasLost = true;
      throw error;
    }
  }

  /** throws unless everything that the kernel has tried to write so far is on the disk */
  async requireWhole(): Promise<void> {
    const { monitor } = this.#options;
    if (!monitor && !this.#hasLost) await this.flush();
    // From now on the store is treated as if the kernel had made it read-only.
    if (this.#hasLost || monitor?.hasLost()) throw readOnlyError();
  }
}
