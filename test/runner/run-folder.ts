/**
 * A folder for what test files of one run share: the first file that needs something makes it there (see
 * test/harness/made-once.ts), and it is deleted when the run ends. Processes of the run find it in their environment.
 */

import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export default async function setup(): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), "sandkeep-run-"));
  // The egress process is not root's, and must be able to read its program.
  chmodSync(folder, 0o755);
  process.env.TEST_RUN_FOLDER = folder;
  // Unit tests run no command, and need no bundler.
  if (!process.env.UNIT) await (await import("../harness/package.ts")).makePackage(join(folder, "package"));
  return () => {
    delete process.env.TEST_RUN_FOLDER;
    rmSync(folder, { recursive: true, force: true });
  };
}

/** its path; undefined outside of a run of Vitest, as in a benchmark */
export function runFolder(): string | undefined {
  return process.env.TEST_RUN_FOLDER;
}
