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
    await run(host, ["-m", "venv", "--without-pip", folder]);
    python = join(folder, "bin/python");
    isReachable = await install(folder, packages);
  });
  afterAll(() => undo.disposeAsync());
  return {
    python(context) {
      if (!isReachable) context.skip(outOfReach("PyPI"));
      return python;
    },
  };
}

/** the interpreter and the pip of this host; a pip in the environment takes longer to install than most packages */
const host = "/usr/bin/python3";

/** false if PyPI cannot be reached; any other failure is an error */
async function install(folder: string, packages: [string, ...string[]]): Promise<boolean> {
  const { stdout: target } = await run(join(folder, "bin/python"), [
    "-c",
    "import sysconfig; print(sysconfig.get_path('purelib'))",
  ]);
  const pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--timeout=20"];
  try {
    // What a program does not import need not be compiled.
    await run(host, [...pip, "install", "--no-compile", `--target=${target.trim()}`, ...packages]);
    return true;
  } catch (error) {
    const probe = [...pip, "download", "--no-deps", "--retries=0", `--dest=${folder}`, packages[0]];
    const isThere = await run(host, probe).then(
      () => true,
      () => false,
    );
    if (isThere) throw error;
    return false;
  }
}
