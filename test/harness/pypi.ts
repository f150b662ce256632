/**
 * Packages from PyPI in virtual environments, for tests that drive the daemon with a vendor's own Python SDK: installed
 * at first use, and kept in node_modules/.cache for later runs.
 */

import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, type TestContext } from "vitest";
import { outOfReach } from "../runner/excuses.ts";
import { root, tempDir } from "./harness.ts";
import { madeOnce } from "./made-once.ts";

const run = promisify(execFile);
const cache = join(root, "node_modules/.cache/sandkeep-pypi");

export interface PythonEnvironment {
  /** its interpreter; skips the test if PyPI cannot be reached */
  python(context: TestContext): string;
}

/** a virtual environment with exactly these packages, such as "vercel-sandbox==0.4.0", and what they depend on */
export function packagesOfFile(...packages: [string, ...string[]]): PythonEnvironment {
  let isReachable = false;
  let python = "";
  beforeAll(async () => {
    const folder = await folderOf(packages);
    python = join(folder, "bin/python");
    try {
      await madeOnce(folder, () => install(folder, packages));
      isReachable = true;
    } catch (error) {
      if (!(await isOutOfReach(packages[0]))) throw error;
    }
  });
  return {
    python(context) {
      if (!isReachable) context.skip(outOfReach("PyPI"));
      return python;
    },
  };
}

/** the interpreter and the pip of this host; a pip in the environment takes longer to install than most packages */
const host = "/usr/bin/python3";

const pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--timeout=20"];

/** where these packages are kept for this version of Python, which has its own format of compiled modules */
async function folderOf(packages: string[]): Promise<string> {
  const { stdout: version } = await run(host, ["--version"]);
  const name = createHash("sha256")
    .update([version, ...packages].join("\n"))
    .digest("hex");
  return join(cache, name.slice(0, 16));
}

async function install(folder: string, packages: string[]): Promise<void> {
  await run(host, ["-m", "venv", "--without-pip", folder]);
  const { stdout: target } = await run(join(folder, "bin/python"), [
    "-c",
    "import sysconfig; print(sysconfig.get_path('purelib'))",
  ]);
  // What a program does not import need not be compiled.
  await run(host, [...pip, "install", "--no-compile", `--target=${target.trim()}`, ...packages]);
}

/** errors of pip without an index; a version that does not exist gives other ones */
const unreachable =
  /NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ConnectionResetError|NameResolutionError|ProtocolError|ProxyError/;

/**
 * Whether PyPI cannot be reached, by the words of pip. It says of both that no distribution matches, so the words of its
 * attempts count.
 */
async function isOutOfReach(name: string): Promise<boolean> {
  await using undo = new AsyncDisposableStack();
  const probe = ["download", "--no-deps", "--retries=1", `--dest=${await tempDir(undo)}`, name];
  return run(host, [...pip, ...probe]).then(
    () => false,
    (error) => unreachable.test(String(error) + error.stderr),
  );
}
