/**
 * Errors that nothing in the daemon waits for. Node would end the program with the first one; the daemon serves many
 * sandboxes, and keeps nothing in memory that is not on the disk, so it says what happened and goes on.
 */

import { messageOf } from "../core/model/errors.ts";

/** from now on, for as long as the program runs */
export function outliveMishaps(logError: (error: Error) => void, source: NodeJS.EventEmitter = process): void {
  for (const event of ["unhandledRejection", "uncaughtException"]) {
    source.on(event, (cause: unknown) => {
      const error = new Error(`Background work failed, and the daemon goes on: ${messageOf(cause)}`, { cause });
      // Where it came from is what is worth knowing.
      if (cause instanceof Error && cause.stack !== undefined) error.stack = cause.stack;
      logError(error);
    });
  }
}
