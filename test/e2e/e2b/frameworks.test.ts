/**
 * Ready-made frameworks that run code in E2B's sandboxes, unmodified from npm, sent to the daemon by the variables of
 * `sandkeep env e2b`. Each program in test/frameworks uses its framework's own interface; a model follows a script.
 */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, type TestContext, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { packageFolderOfFile } from "../../harness/npm-packages.ts";

const run = promisify(execFile);
const daemon = daemonOfFile();
const frameworks = packageFolderOfFile("frameworks");
const port = expect.stringMatching(/^(https?:\/\/)?3000-[a-z0-9]+\.localhost(:\d+)?$/);

test.for(["tar", "snapshot"])(
  "@openai/agents-extensions: a SandboxAgent works, and its workspace is kept as a %s",
  async (workspacePersistence, context) => {
    expect(await program(context, "openai-agents.mjs", { service: "e2b", workspacePersistence })).toEqual({
      agent: [["hello\nfirst", "42\n"], "done"],
      codes: ["3", "0"],
      read: "second",
      port,
      next: "42\n",
    });
  },
);

test("@mastra/e2b: a workspace works, and another object finds its sandbox again after a stop", async (context) => {
  expect(await program(context, "e2b-mastra.mjs")).toEqual({
    run: [0, "hello\n", ""],
    failed: 3,
    wrote: 0,
    killed: true,
    afterStop: "stopped",
    other: "kept\n",
  });
});

test("@computesdk/e2b: commands, files, ports and lists", async (context) => {
  expect(await program(context, "e2b-computesdk.mjs")).toEqual({
    run: [3, "hi\n", "wrong\n"],
    env: "hello\n",
    read: "first",
    list: ["a.txt"],
    status: "running",
    url: port,
    again: "first",
    listed: true,
  });
});

/** the output of a program of test/frameworks */
async function program(context: TestContext, name: string, settings: NodeJS.ProcessEnv = {}): Promise<unknown> {
  const cwd = await frameworks.copy(context);
  const { url, key } = daemon();
  // As `sandkeep env e2b` prints it: some frameworks take no other form.
  const apiKey = `e2b_${Buffer.from(key).toString("hex")}`;
  const env = { PATH: process.env.PATH, HOME: cwd, E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: apiKey };
  const { stdout } = await run(process.execPath, [name], { cwd, env: { ...env, ...settings }, maxBuffer: 2 ** 26 });
  return JSON.parse(stdout);
}
