/** Streams of the daemon, whose errors say what was asked for. */

import { ApiError } from "../../client/client.ts";
import { CliError, NoAnswer } from "../errors.ts";
import type { Daemon } from "./daemon.ts";

/** the pieces of a stream; `what` is such as "show the egress log" */
export async function* streamed<T>(daemon: Daemon, what: string, pieces: AsyncIterable<T>): AsyncGenerator<T> {
  let hasBegun = false;
  try {
    for await (const piece of pieces) {
      hasBegun = true;
      yield piece;
    }
  } catch (error) {
    if (error instanceof CliError) throw error;
    if (error instanceof ApiError && !hasBegun) await daemon.ask(what, Promise.reject(error));
    if (error instanceof ApiError) throw new CliError(`Cannot continue to ${what}: ${error.message}`);
    throw new NoAnswer(`Cannot ${what}: the connection to "${daemon.url}" is lost`);
  }
}
