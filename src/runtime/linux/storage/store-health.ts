/**
 * Whether everything that the store has accepted got to its disk. A disk below the store that is full makes the kernel drop
 * files' data, and it does not refuse to copy the volume that lacks them: only a flush of the whole store says so, once. So
 * a capture asks for such a flush before it is acknowledged, where the disk has been short of room since the last one.
 *
 * A store that has lost something counts as failed until its machines have ended: none of them may go on with files that
 * are only in memory.
 */

import { isOfDisk, readOnlyError } from "../guest-wire/failure.ts";

export interface StoreHealthOptions {
  /** flushes the store; rejects with what the kernel could not write since the last time */
  sync: () => Promise<void>;
  /** when the disk was last seen to be short of room, in ms of performance.now(); undefined while that was never so */
  lastShort: () => number | undefined;
  /** as the kernel makes a store that it cannot go on with */
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

  /** the kernel says only once what it has lost, so that every flush of the daemon's is made here */
  async flush(): Promise<void> {
    const begun = performance.now();
    try {
      await this.#options.sync();
    } catch (error) {
      // From now on as if the kernel had made it read-only.
      if (isOfDisk(error)) this.#failure = readOnlyError();
      throw error;
    }
    this.#checkedAt = begun;
  }

  /** throws unless all that was captured before the call is on the disk */
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
