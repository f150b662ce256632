/**
 * Puts what was committed on the disk, beside the program instead of in its way: SQLite writes a commit to its log file
 * and leaves flushing it to us, and one flush serves all who wait for one.
 *
 * A flush that fails is not made good by the next one: the kernel says once that it could not write, and takes the pages
 * for written from then on. What the log holds is then brought into the database before anything more is acknowledged.
 */

import { fdatasync, openSync } from "node:fs";
import { promisify } from "node:util";
import { isSandkeepError } from "../../core/model/errors.ts";
import { ofDisk } from "./faults.ts";

export interface FlushOptions {
  /** the log file, which need not be there yet */
  path: string;
  /** resolves when everything that the log holds is on the disk without it */
  rewrite: () => Promise<void>;
  /** default fdatasync */
  sync?: (fd: number) => Promise<void>;
}

const fdatasyncOf = promisify(fdatasync);

export class Flush {
  readonly #options: FlushOptions;
  #fd: number | undefined;
  /** whether parts of the log may be missing on the disk for good */
  #isTorn = false;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(options: FlushOptions) {
    this.#options = options;
  }

  /** resolves when everything committed before the call is on the disk */
  flushed(): Promise<void> {
    // one that runs may have begun before the commit: only the one after it is sure to have it
    this.#next ??= (this.#running ?? Promise.resolve()).catch(() => undefined).then(() => this.#begin());
    return this.#next;
  }

  #begin(): Promise<void> {
    this.#next = undefined;
    const run = this.#flush()
      .catch((cause) => {
        throw isSandkeepError(cause) ? cause : ofDisk(cause);
      })
      .finally(() => {
        if (this.#running === run) this.#running = undefined;
      });
    this.#running = run;
    return run;
  }

  async #flush(): Promise<void> {
    const { path, rewrite, sync = fdatasyncOf } = this.#options;
    // the same file for as long as the database is open
    this.#fd ??= openSync(path, "r");
    if (this.#isTorn) await rewrite();
    this.#isTorn = true;
    await sync(this.#fd);
    this.#isTorn = false;
  }
}
