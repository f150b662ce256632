/**
 * Waits with a limit: a time or a signal. The work itself continues after the wait has ended, and its error is then
 * ignored.
 */

/** does not keep the program running */
export function after(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(resolve, ms, undefined).unref());
}

/** the work's result, or undefined when it takes longer */
export async function within<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, ms, undefined);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** the work's result, or undefined when the signal aborts first */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T | undefined> {
  if (!signal) return work;
  work.catch(() => undefined);
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const stop = () => resolve(undefined);
  signal.addEventListener("abort", stop);
  if (signal.aborted) stop();
  return Promise.race([work, aborted]).finally(() => signal.removeEventListener("abort", stop));
}
