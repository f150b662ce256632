/**
 * Ready-made frameworks that run code in Vercel Sandbox, unmodified from npm, sent to the daemon by `sandkeep env vercel`.
 * Each program in test/frameworks uses its framework's own interface; where a model decides, it follows a script.
 */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, type TestContext, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { packageFolderOfFile } from "../../harness/npm-packages.ts";
import { vercelEnvironment } from "../clients.ts";

const run = promisify(execFile);
const daemon = daemonOfFile();
const frameworks = packageFolderOfFile("frameworks");
const port = expect.stringMatching(/^(https:\/\/)?sb-[a-z0-9]+\.vercel\.run$/);

test("@ai-sdk/sandbox-vercel: an agent's tool works in a session, which serves a port and is resumed", async (context) => {
  expect(await program(context, "ai-sdk.mjs")).toEqual({
    agent: [
      [
        { exitCode: 3, stdout: "", stderr: "wrong\n" },
        { exitCode: 0, stdout: "42\n", stderr: "" },
      ],
      "done",
    ],
    files: ["first", [0, 255, 1], null],
    port: "served",
    killed: 128 + 15,
    denied: 7,
    resumed: "first",
  });
});

test.for(["tar", "snapshot"])(
  "@openai/agents-extensions: a SandboxAgent works, and its workspace is kept as a %s",
  async (workspacePersistence, context) => {
    expect(await program(context, "openai-agents.mjs", { service: "vercel", workspacePersistence })).toEqual({
      agent: [["hello\nfirst", "42\n"], "done"],
      codes: ["3", "0"],
      read: "second",
      port,
      next: "42\n",
    });
  },
);

test("@mastra/vercel: a workspace works, and resumes after the stop of its lifecycle", async (context) => {
  const seen = await program(context, "mastra.mjs");
  expect(seen).toMatchObject({
    run: [3, "hello\n", ""],
    killed: 128 + 9,
    afterStop: "stopped",
    kept: "kept",
  });
  // stop() called by itself leaves Mastra's own status at "running": start() then sends nothing, and the next command is
  // refused by Mastra before a request leaves the process. A new object for the same sandbox works at once.
  expect(seen).toMatchObject({
    afterBareStop: "running",
    failure: "SandboxNotReadyError",
    requests: 0,
    other: "kept",
  });
});

test("bash-tool: an agent of the AI SDK runs commands and writes and reads files", async (context) => {
  expect(await program(context, "bash-tool.mjs")).toEqual({
    answers: [
      { exitCode: 3, stdout: "hello from linux\n/vercel/sandbox/workspace\n", stderr: "wrong\n" },
      { success: true },
      { content: "first" },
    ],
    text: "done",
  });
});

test("@vercel/agent-eval: an evaluation runs from its fixture to the verdict", async (context) => {
  expect(await program(context, "agent-eval.mjs")).toEqual({
    status: "passed",
    scripts: { check: expect.stringMatching(/^adds$/m) },
    written: [["add.mjs", "export const add = (one, other) => one + other;\n"]],
    deleted: [],
  });
});

test("@computesdk/vercel: commands, files, ports and snapshots", async (context) => {
  expect(await program(context, "computesdk.mjs")).toEqual({
    run: [3, "hi\n", "wrong\n"],
    env: "hello\n",
    python: "42\n",
    read: "first",
    status: "running",
    url: port,
    again: "first",
    copy: "first",
  });
});

test("eve: an agent works in a copy of the sandbox that was prepared for it, out of the box", async (context) => {
  expect(await program(context, "eve.mjs")).toEqual({
    passed: 1,
    failed: 0,
    answers: [
      { existed: false, path: "/workspace/six.txt" },
      expect.objectContaining({ exitCode: 0, stdout: "prepared\n42\nubuntu\n/workspace\n", stderr: "" }),
    ],
  });
  await expect
    .poll(() => daemon().complaints())
    .toContain('Sandboxes that ask for the image "vcr.vercel.com/vercel/eve/base:');
});

/** the output of a program of test/frameworks */
async function program(context: TestContext, name: string, settings: NodeJS.ProcessEnv = {}): Promise<unknown> {
  const cwd = await frameworks.copy(context);
  const env = { ...(await vercelEnvironment(daemon())), HOME: cwd, ...settings };
  const { stdout } = await run(process.execPath, [name], { cwd, env, maxBuffer: 2 ** 26 });
  return JSON.parse(stdout);
}
