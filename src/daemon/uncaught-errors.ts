/**
 * Errors that no code in the daemon catches.
 *
 * A rejected promise is background work that failed: its callers, if any, have their answer, and every state is on the
 * disk. The daemon logs it and continues. An uncaught exception may have left the code that threw it halfway, so what is
 * in memory is in doubt, and Node advises to end the process. The daemon then stops as on a signal and starts anew in
 * the same process. It does not rely on a supervisor, because `npm start` has none. Sandboxes run on meanwhile.
 */

import { within } from "../base/concurrency/waits.ts";
import { messageOf } from "../core/model/errors.ts";

/** from now on, for as long as the program runs; resolves at the first uncaught exception */
export function logUncaughtErrors(logError: (error: Error) => void): Promise<void> {
  const { promise: broken, resolve } = Promise.withResolvers<void>();
  process.on("unhandledRejection", (cause: unknown) => {
    logError(withPlace("Background work failed, and the daemon continues", cause));
  });
  process.on("uncaughtException", (cause: unknown) => {
    logError(withPlace("The daemon failed, and starts again", cause));
    resolve();
  });
  return broken;
}

export interface Restart {
  /** stops the daemon; when the signal aborts, without waiting for requests that are under way */
  stop: (forced: AbortSignal) => Promise<void>;
  /** resolves if the operator wants the daemon to end */
  asked: Promise<void>;
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  /** how long the daemon has run, in ms */
  uptime?: number;
}

/** how long requests that are under way may take, and then all else, in ms */
const stopTimeout = 2000;
/** a daemon that failed sooner than this after its start waits before the next one, in ms */
const soon = 30_000;
/** how long it waits then, so that it does not fail in a tight loop, in ms */
const pause = 2000;

/** replaces this process with a new one of the same program, which has the same id; returns if the daemon shall end */
export async function restart({ stop, asked, args, env, uptime = process.uptime() * 1000 }: Restart): Promise<void> {
  await within(stop(AbortSignal.timeout(stopTimeout)), 2 * stopTimeout);
  const isAsked = await within(
    asked.then(() => true),
    uptime < soon ? pause : 0,
  );
  if (isAsked) return;
  process.execve?.(process.execPath, [process.execPath, ...process.execArgv, ...args], env);
  throw new Error("Cannot start again: this version of Node cannot replace its process");
}

/** an error that shows where its cause was thrown */
function withPlace(sentence: string, cause: unknown): Error {
  const error = new Error(`${sentence}: ${messageOf(cause)}`, { cause });
  if (cause instanceof Error && cause.stack !== undefined) error.stack = cause.stack;
  return error;
}
