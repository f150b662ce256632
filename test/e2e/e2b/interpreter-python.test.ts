/** The Python SDK of E2B's code interpreter, unmodified from PyPI. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { packagesOfFile } from "../../harness/pypi.ts";

const run = promisify(execFile);
const daemon = daemonOfFile();
const packages = packagesOfFile("e2b-code-interpreter==2.11.5");

test("code, contexts, languages, errors and charts work with and without async", async (context) => {
  const python = packages.python(context);
  const { url, key } = daemon();
  const { stdout } = await run(python, [join(import.meta.dirname, "python/interpreter.py")], {
    env: { PATH: process.env.PATH, E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: key },
    cwd: await tempDir(),
  });
  const ran = ["42", ["out\n"], ["err\n"], 1];
  expect(JSON.parse(stdout)).toEqual({
    run: ran,
    streamed: ["out\n"],
    error: ["ZeroDivisionError", "division by zero", true],
    envs: "b",
    context: ["python", "/tmp", "/tmp"],
    listed: true,
    chart: ["<b>", "pie", "l"],
    async: ran,
    languages: ["2", ["b\n"]],
  });
});
