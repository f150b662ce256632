/**
 * Tracks whether all data that the store has accepted got to its disk. When the disk below the store is full, the
 * kernel drops files' data. It still copies the volume that lacks them: only a flush of the whole store reports the
 * loss, once. So a capture flushes the store before it is acknowledged, if the disk has been short of room since the
 * last flush.
 *
 * A store that has lost data counts as failed until its machines have ended: none of them may go on with files that
 * exist only in memory.
 */

import { isOfDisk, readOnlyError } from "../guest-wire/failure.ts";

export interface StoreHealthOptions {
  /** flushes the store; rejects if the kernel could not write something since the last time */
  sync: () => Promise<void>;
  /** the last time the disk was found short of room, in ms of performance.now(); undefined if it never was */
  lastShort: () => number | undefined;
  /** whether the kernel has made the store read-only, as it does after an error */
  isReadOnly: () => boolean;
}

export class StoreHealth {
  readonly #options: StoreHealthOptions;
  #checkedAt = Number.NEGATIVE_INFINITY;
  #failure: Error | undefined;

  constructor(options: StoreHealthOptions) {
    this.#options = options;
  }

  get hasFailed(): boolean {
    return this.#failure !== undefined || this.#options.isReadOnly();
  }

  /** the kernel reports a loss only once, so every flush of the daemon goes through here */
  async flush(): Promise<void> {
    const begun = performance.now();
    try {
      await this.#options.sync();
    } catch (error) {
      // From now on the store is treated as if the kernel had made it read-only.
      if (isOfDisk(error)) this.#failure = readOnlyError();
      throw error;
    }
    this.#checkedAt = begun;
  }

  /** throws unless everything captured before the call is on the disk */
  async requireWhole(): Promise<void> {
    const lastShort = this.#options.lastShort();
    const isUnsure = lastShort !== undefined && lastShort >= this.#checkedAt;
    if (this.#failure === undefined && isUnsure)
      await this.flush().catch((error) => {
        throw this.#failure ?? error;
      });
    if (this.#failure !== undefined) throw this.#failure;
  }
}
