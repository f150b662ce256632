/** A watch of a sandbox's files over a connection of its own, at a speed that the daemon can bear. */

import { Pace } from "../../../base/concurrency/pace.ts";
import type { FileChange } from "../../../core/ports/runtime.ts";
import type { FileSession } from "./file-session.ts";

/**
 * Programs inside make changes far faster than the daemon can pass them on, for any number of watches. So a watch takes a
 * turn for each batch, and the machines take turns. While a watch waits, nothing is read off its connection. If the
 * kernel's queue inside is full then, the guest ends the watch with an error that says so.
 */
const pace = new Pace(2);
/** changes in one turn: about half a millisecond of work */
export const batch = 64;

/** resolves once the watch is in place; an abort ends the changes without an error */
export async function watch(
  session: FileSession,
  machine: object,
  path: string,
  options: { recursive?: boolean; signal?: AbortSignal } = {},
): Promise<AsyncIterable<FileChange>> {
  const { signal } = options;
  const close = () => session.close();
  signal?.addEventListener("abort", close);
  try {
    signal?.throwIfAborted();
    return untilAborted(session, paced(await session.watch(path, options), machine), signal, close);
  } catch (error) {
    signal?.removeEventListener("abort", close);
    session.close();
    throw error;
  }
}

async function* paced(changes: AsyncIterable<FileChange>, machine: object): AsyncGenerator<FileChange> {
  let left = batch;
  for await (const change of changes) {
    if (left === 0) {
      await pace.turn(machine);
      left = batch;
    }
    left--;
    yield change;
  }
}

async function* untilAborted(
  session: FileSession,
  changes: AsyncIterable<FileChange>,
  signal: AbortSignal | undefined,
  close: () => void,
): AsyncGenerator<FileChange> {
  try {
    yield* changes;
  } catch (error) {
    if (!signal?.aborted) throw error;
  } finally {
    signal?.removeEventListener("abort", close);
    session.close();
  }
}
