/**
 * Notices that a process of ours lives and does not answer, as after SIGSTOP: requests to it would wait for ever. The
 * process is asked a question while requests wait for it, and no answer within a time is reported.
 */

import { within } from "../../../base/concurrency/waits.ts";

export interface SilenceOptions {
  /** number of requests that wait for an answer */
  waiting: () => number;
  /** a question that the process answers at once, whatever else it does */
  ask: () => Promise<unknown>;
  /** called when there was no answer */
  silent: () => void;
  /** how long a request may wait before the process is asked, and how long it may take to answer, in ms */
  patience?: number;
}

/** default of `patience`, in ms */
export const usualPatience = 20_000;

export class Silence {
  readonly #options: SilenceOptions;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: SilenceOptions) {
    this.#options = options;
  }

  /** call this whenever a request begins to wait */
  watch(): void {
    this.#timer ??= setTimeout(() => void this.#look(), this.#options.patience ?? usualPatience).unref();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  async #look(): Promise<void> {
    const { waiting, ask, silent, patience = usualPatience } = this.#options;
    if (waiting() > 0 && !(await answers(ask(), patience))) silent();
    this.#timer = undefined;
    if (waiting() > 0) this.watch();
  }
}

/** whether a request settles in time; an error is an answer too */
export async function answers(request: Promise<unknown>, patience: number): Promise<boolean> {
  const done = request.then(
    () => true,
    () => true,
  );
  // Twice: if this process itself was stopped meanwhile, the first time is over before an answer could be read.
  for (let half = 0; half < 2; half++) if (await within(done, patience / 2)) return true;
  return false;
}
