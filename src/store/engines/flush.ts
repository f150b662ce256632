/**
 * Puts what was committed on the disk, beside the program instead of in its way: SQLite writes a commit to its log file
 * and leaves flushing it to us, and one flush serves all who wait for one.
 */

import { fdatasync, openSync } from "node:fs";
import { promisify } from "node:util";
import { ofDisk } from "./faults.ts";

const flushFile = promisify(fdatasync);

export class Flush {
  readonly #path: string;
  #fd: number | undefined;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  /** the log file, which need not be there yet */
  constructor(path: string) {
    this.#path = path;
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
        throw ofDisk(cause);
      })
      .finally(() => {
        if (this.#running === run) this.#running = undefined;
      });
    this.#running = run;
    return run;
  }

  async #flush(): Promise<void> {
    // the same file for as long as the database is open
    this.#fd ??= openSync(this.#path, "r");
    await flushFile(this.#fd);
  }
}
