/** Packages from PyPI in virtual environments, for tests that drive the daemon with a vendor's own Python SDK. */

import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, type TestContext } from "vitest";
import { outOfReach } from "../runner/excuses.ts";

const run = promisify(execFile);

export interface PythonEnvironment {
  /** its interpreter; skips the test if PyPI cannot be reached */
  python(context: TestContext): string;
}

/** a virtual environment for this test file with these packages, such as "vercel-sandbox==0.4.0" */
export function packagesOfFile(...packages: [string, ...string[]]): PythonEnvironment {
  const undo = new AsyncDisposableStack();
  let isReachable = false;
  let python = "";
  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), "sandkeep-pypi-"));
    undo.defer(() => rm(folder, { recursive: true, force: true }));
    await run("/usr/bin/python3", ["-m", "venv", folder]);
    python = join(folder, "bin/python");
    const probe = ["-m", "pip", "download", "--quiet", "--no-deps", "--timeout=20", "--retries=0"];
    isReachable = await run(python, [...probe, `--dest=${folder}`, packages[0]]).then(
      () => true,
      () => false,
    );
    if (isReachable) await run(python, ["-m", "pip", "install", "--quiet", ...packages]);
  });
  afterAll(() => undo.disposeAsync());
  return {
    python(context) {
      if (!isReachable) context.skip(outOfReach("PyPI"));
      return python;
    },
  };
}
