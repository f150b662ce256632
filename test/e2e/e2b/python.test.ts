/** E2B's Python SDK, unmodified from PyPI: with and without async. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { packagesOfFile } from "../../harness/pypi.ts";

const run = promisify(execFile);
const daemon = daemonOfFile();
const packages = packagesOfFile("e2b==2.63.0");

test.for(["sync_sdk.py", "async_sdk.py"])("%s does its work on the daemon", async (program, context) => {
  const python = packages.python(context);
  const { url, key } = daemon();
  // With a dump of Python's stacks if a signal ends it.
  const { stdout } = await run(python, ["-X", "faulthandler", join(import.meta.dirname, "python", program)], {
    env: { PATH: process.env.PATH, E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: key },
    cwd: await tempDir(),
  }).catch(explain);
  expect(JSON.parse(stdout)).toEqual({
    run: [0, "hello\nuser\n/home/user\n", "wrong\n"],
    failed: 3,
    listed: true,
    fed: "tëxt\n",
    killed: [true, false],
    read: ["first", true, "c"],
    list: ["a.txt", "b.bin"],
    info: ["user", "dir"],
    made: [true, false],
    renamed: "/home/user/new/d.txt",
    watched: expect.arrayContaining(["create e.txt", "write e.txt"]),
    exists: [true, false],
    pty: true,
    running: true,
    again: "c",
    gone: [true, false],
    template: [false, true, "hello\nsent\n600\n1\n", true],
    broken: true,
    status: "ready",
  });
});

/** the exit code or signal, which an error of execFile does not say in words */
function explain(error: Error & { code?: number; signal?: string; stdout?: string }): never {
  throw new Error(`${error.message} (code ${error.code}, signal ${error.signal}, stdout: ${error.stdout})`, {
    cause: error,
  });
}
