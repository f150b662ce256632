/**
 * A folder for what test files of one run share: the first file that needs something makes it there (see
 * test/harness/made-once.ts). Processes of the run find it in their environment. A process of its own deletes it when the
 * run has ended, with everything else that the tests left.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export default async function setup(): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), "sandkeep-run-"));
  // The egress process is not root's, and must be able to read its program.
  chmodSync(folder, 0o755);
  const end = startReaper(folder);
  process.env.TEST_RUN_FOLDER = folder;
  // Unit tests run no command, and need no bundler.
  if (!process.env.UNIT) await (await import("../harness/package.ts")).makePackage(join(folder, "package"));
  return async () => {
    delete process.env.TEST_RUN_FOLDER;
    await end();
  };
}

/** its path; undefined outside of a run of Vitest, as in a benchmark */
export function runFolder(): string | undefined {
  return process.env.TEST_RUN_FOLDER;
}

/** `detached`: Ctrl-C at the terminal ends the run and not the reaper */
function startReaper(folder: string): () => Promise<void> {
  const program = join(import.meta.dirname, "reaper.ts");
  const reaper = spawn(process.execPath, [program, folder], { detached: true, stdio: ["pipe", "ignore", "inherit"] });
  const ended = once(reaper, "exit");
  return async () => {
    reaper.stdin.end();
    await ended;
  };
}
