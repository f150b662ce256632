/** Detects that a command has changed the images of a daemon's store, so that unused versions are deleted at once. */

import { type FSWatcher, watch } from "node:fs";

/** pause after the last of several changes, in ms */
const pause = 200;

export class ImageWatch {
  readonly #watcher: FSWatcher;
  #timer: NodeJS.Timeout | undefined;

  /** `folder` holds the images' records */
  constructor(folder: string, changed: () => Promise<unknown>, logError: (error: unknown) => void) {
    this.#watcher = watch(folder, { persistent: false }, () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => void changed().catch(logError), pause).unref();
    });
    this.#watcher.on("error", logError);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#watcher.close();
  }
}
