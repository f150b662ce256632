/** The examples with agents: each framework's own MCP client, unmodified, and a model that follows a script. */

import { spawn } from "node:child_process";
import { copyFile, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { root, tempDir } from "../../harness/harness.ts";
import { packageFolderOfFile } from "../../harness/npm-packages.ts";
import { call, connect } from "./mcp.ts";
import { type Step, scriptedModel } from "./scripted-model.ts";

const daemon = daemonOfFile();
const frameworks = packageFolderOfFile("frameworks");
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());

/** acts as a model would: passes the name from one tool to the next, and puts the program's output into the answer */
function calculate(answers: string[]): Step {
  const found = (pattern: RegExp) => pattern.exec(answers.join("\n"))?.[1] ?? "";
  const sandbox = found(/\\?"sandbox\\?":\s*\\?"([\w-]+)/);
  switch (answers.length) {
    case 0:
      return { tool: "create_sandbox", args: { tags: { made: "by an agent" } } };
    case 1:
      return { tool: "run_command", args: { sandbox, command: "python3 -c 'print(6 * 7)'" } };
    case 2:
      return { tool: "delete_sandbox", args: { sandbox } };
    default:
      return { say: `It is ${found(/\\?"stdout\\?":\s*\\?"(\d+)/)}.` };
  }
}

test.each(["mcp-ai-sdk", "mcp-openai-agents", "mcp-langchain"])(
  "examples/%s.ts computes in a sandbox and leaves none behind",
  (example) => computes(join(root, "examples", `${example}.ts`)),
);

test("examples/mcp-mastra.ts computes in a sandbox and leaves none behind", async (context) => {
  const example = join(await frameworks.copy(context), "mcp-mastra.ts");
  await copyFile(join(root, "examples/mcp-mastra.ts"), example);
  // Mastra puts the server's name before the names of its tools.
  await computes(example, "sandkeep_");
});

/** `prefix`: what the framework puts before the names of tools */
async function computes(example: string, prefix = ""): Promise<void> {
  const model = await scriptedModel(undo, (answers) => {
    const step = calculate(answers);
    return "tool" in step ? { ...step, tool: `${prefix}${step.tool}` } : step;
  });
  const bin = await tempDir();
  await symlink(join(root, "bin/sandkeep"), join(bin, "sandkeep"));
  const child = spawn(process.execPath, [example], {
    env: {
      PATH: [bin, dirname(process.execPath), process.env.PATH].join(":"),
      SANDKEEP_URL: daemon().url,
      SANDKEEP_API_KEY: daemon().key,
      OPENAI_API_KEY: "sk-scripted",
      OPENAI_BASE_URL: model.url,
      MASTRA_TELEMETRY_DISABLED: "1",
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const [stdout, stderr, status] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  expect(stdout, stderr).toBe("It is 42.\n");
  expect(status).toBe(0);
  expect(model.offered).toHaveLength(4);
  const client = await connect(daemon(), "2025-11-25", undo);
  const own = (await client.listTools()).tools.map(({ name }) => `${prefix}${name}`);
  for (const names of model.offered) expect(names).toEqual(own);
  expect((await call(client, "list_sandboxes")).sandboxes).toEqual([]);
}
