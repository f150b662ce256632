/**
 * A folder for what test files of one run share: the first file that needs something makes it there (see
 * test/harness/made-once.ts), and it is deleted when the run ends. Processes of the run find it in their environment.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export default function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "sandkeep-run-"));
  process.env.TEST_RUN_FOLDER = folder;
  return () => {
    delete process.env.TEST_RUN_FOLDER;
    rmSync(folder, { recursive: true, force: true });
  };
}

/** its path; undefined outside of a run of Vitest, as in a benchmark */
export function runFolder(): string | undefined {
  return process.env.TEST_RUN_FOLDER;
}
