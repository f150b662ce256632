/** Runs a task again and again while the daemon runs, without keeping the daemon alive. */

export interface PeriodicTask {
  close(): void;
}

/** every `pause` ms; errors of a run go to `logError`, and the next run happens all the same */
export function runEvery(pause: number, task: () => void, logError: (error: unknown) => void): PeriodicTask {
  const timer = setInterval(() => {
    try {
      task();
    } catch (error) {
      logError(error);
    }
  }, pause);
  timer.unref();
  return { close: () => clearInterval(timer) };
}
