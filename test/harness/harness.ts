/** Functions for all tests: a temporary directory, and waiting for a condition. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { onTestFinished } from "vitest";

/** the repository's root directory */
export const root = join(import.meta.dirname, "../..");

/** A place to stack the undo of a resource: an AsyncDisposableStack, or the end of the running test. */
export interface Undo {
  defer(undo: () => Promise<void>): void;
}

const endOfTest: Undo = { defer: (undo) => onTestFinished(undo) };

/** Makes a directory that is removed when the test ends; outside a test, pass the stack that removes it. */
export async function tempDir(undo: Undo = endOfTest): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "sandkeep-test-"));
  undo.defer(() => rm(path, { recursive: true, force: true }));
  return path;
}

/**
 * Waits until `probe` returns something other than undefined or false, and returns it. A probe that throws counts as
 * "not yet"; on a timeout its error is the cause of the failure.
 */
export async function eventually<T>(
  what: string,
  probe: () => T | Promise<T>,
  options: { timeoutMs?: number; everyMs?: number } = {},
): Promise<Exclude<T, undefined | false>> {
  const { timeoutMs = 60_000, everyMs = 10 } = options;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    let cause: unknown;
    try {
      const value = await probe();
      // The check leaves exactly the type that the signature promises; the compiler cannot narrow a bare T.
      if (value !== undefined && value !== false) return value as Exclude<T, undefined | false>;
    } catch (error) {
      cause = error;
    }
    if (performance.now() >= deadline) throw new Error(`Waited ${timeoutMs} ms in vain: ${what}`, { cause });
    await pause(everyMs);
  }
}
