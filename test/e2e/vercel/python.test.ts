/** Vercel's Python SDK, unmodified from PyPI, sent to the daemon by `sandkeep env vercel`, with and without async. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, type TestContext, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { packagesOfFile } from "../../harness/pypi.ts";
import { vercelEnvironment } from "../clients.ts";

const run = promisify(execFile);
const daemon = daemonOfFile();
const releases = {
  "vercel-sandbox 0.4.0": packagesOfFile("vercel-sandbox==0.4.0"),
  "vercel 0.12.1 with vercel-sandbox 0.10.0": packagesOfFile("vercel-sandbox==0.10.0", "vercel==0.12.1"),
};

describe.each(Object.entries(releases))("%s", (_, packages) => {
  test.for(["sync_sdk.py", "async_sdk.py"])("%s works with the daemon", async (program, context) => {
    const python = packages.python(context);
    const { stdout } = await run(python, [join(import.meta.dirname, "python", program)], {
      env: await vercelEnvironment(daemon()),
      cwd: await tempDir(),
    });
    expect(JSON.parse(stdout)).toEqual({
      run: [3, "hello\n", "wrong\n"],
      read: ["first", true],
      list: ["a.txt", "b.bin"],
      exists: [true, true, false],
      after: ["c.txt"],
      killed: 128 + 15,
      processes: expect.any(Number),
      port: "served",
      tags: { kind: "test" },
      found: true,
      snapshot: "created",
      copy: "kept",
      resumed: "kept",
      sessions: expect.any(Number),
    });
  });
});

describe("vercel-sandbox 0.10.0", () => {
  test("processes read their standard input, and drives are found and forked", async (context) => {
    expect(await program(context, "sync_stdin.py")).toEqual({
      run: [0, "HELLO"],
      large: true,
      without: [0, ""],
      pieces: ["one\ntwo\n", 0],
      ended: "BrokenPipeError",
      unattached: "command_stdin_unavailable",
      drive: [true, true, "python-sync-drive", "python-sync-stdin"],
      fork: ["python-sync-fork", 64 * 2 ** 20, true, true],
      second: [true, true],
      forked: "kept\n",
      missing: [404, "not_found"],
      taken: [409, "conflict"],
    });
  });

  test("the same with async", async (context) => {
    expect(await program(context, "async_stdin.py")).toEqual({
      run: [0, "HELLO"],
      large: true,
      pieces: ["one\ntwo\nthree\n", 0],
      fork: [true, "python-async-fork", true],
      forked: "kept\n",
    });
  });

  async function program(context: TestContext, name: string): Promise<unknown> {
    const python = releases["vercel 0.12.1 with vercel-sandbox 0.10.0"].python(context);
    const { stdout } = await run(python, [join(import.meta.dirname, "python", name)], {
      env: await vercelEnvironment(daemon()),
      cwd: await tempDir(),
    });
    return JSON.parse(stdout);
  }
});

test("the address of a port also works without the sitecustomize module", async (context) => {
  const python = releases["vercel-sandbox 0.4.0"].python(context);
  const { url, key } = daemon();
  const program = join(import.meta.dirname, "python/base_url.py");
  const { stdout } = await run(python, [program, `${url}/api`, key], { env: {}, cwd: await tempDir() });
  expect(JSON.parse(stdout)).toEqual({
    url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/port\/sb-[a-z0-9]+$/),
    answer: "served",
  });
});
