/**
 * What the outside world says to a daemon: SIGTERM and SIGINT ask it to end, and asked twice it hurries; SIGHUP says that
 * a terminal is gone, which a service does not mind. A reader of its output that is gone does not end it either.
 */

export interface Ending {
  /** resolves when somebody asks for the end */
  asked: Promise<void>;
  /** aborted when somebody asks again: whatever is waited for is waited for no longer */
  hurry: AbortSignal;
}

/** from now on, for as long as the program runs */
export function heedSignals(): Ending {
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  const hurry = new AbortController();
  let times = 0;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (times++ === 0) resolve();
      else hurry.abort();
    });
  }
  process.on("SIGHUP", () => undefined);
  return { asked, hurry: hurry.signal };
}

/** whoever read our output may go: unheard, the error would end the program */
export function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
}
