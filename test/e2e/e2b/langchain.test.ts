/** LangChain's deep agents with a sandbox of E2B's, unmodified from PyPI. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { packagesOfFile } from "../../harness/pypi.ts";

const run = promisify(execFile);
const daemon = daemonOfFile();
const packages = packagesOfFile("langchain-e2b==0.0.6", "deepagents==0.6.12", "e2b==2.63.0");

test("an agent writes, edits, searches and runs, with and without async", async (context) => {
  const python = packages.python(context);
  const { url, key } = daemon();
  const { stdout } = await run(python, [join(import.meta.dirname, "python/deep_agent.py")], {
    env: { PATH: process.env.PATH, E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: key },
    cwd: await tempDir(),
  });
  const [bare, asynchronous] = JSON.parse(stdout);
  expect(bare).toEqual({
    last: "done",
    read: [true, true, true],
    found: [true, true, true],
    execute: [true, true, true],
    uploaded: [null, "is_directory"],
    downloaded: [
      ["00ff0102", null],
      [null, "file_not_found"],
      [null, "is_directory"],
      [null, "invalid_path"],
    ],
    same: true,
    late: 124,
    gone: 124,
  });
  expect(asynchronous).toEqual(bare);
});
