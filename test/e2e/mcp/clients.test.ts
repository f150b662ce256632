/**
 * Third-party clients: the protocol's inspector lists the tools without a warning, programs that use
 * standard input and output find the same tools there, and the example for configurations works.
 */

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, describe, expect, test } from "vitest";
import { launcher } from "../../../src/installation/installation.ts";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually, root, tempDir } from "../../harness/harness.ts";
import { inspectorOf, toolCall } from "./inspector.ts";
import {
  call,
  connect,
  type Era,
  eras,
  negotiation,
  type Progress,
  refusal,
  runProgram,
  veryfrontPath,
} from "./mcp.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());

const main = join(root, "src/main.ts");

describe("the inspector", () => {
  const { inspect, inspected } = inspectorOf(daemon);

  test.each(["/mcp", veryfrontPath])("lists the tools at %s without a warning", async (path) => {
    expect((await inspect("tools/list", [], path)).tools.length).toBeGreaterThan(5);
  });

  test("gives no warning in the newer protocol, and distinguishes an error from an answer", async () => {
    const { tools } = await inspect("tools/list", ["--protocol-era", "modern"]);
    expect(tools.length).toBeGreaterThan(15);
    const { structuredContent } = await inspect("tools/call", toolCall("list_sandboxes", { limit: 5 }));
    expect(structuredContent.sandboxes).toEqual(expect.any(Array));
    const wrong = await inspected("tools/call", toolCall("get_sandbox", { sandbox: "nobody" }));
    expect(wrong.status).not.toBe(0);
    expect(wrong.stdout).toContain("'nobody' not found");
  });
});

describe.each(eras)("over standard input and output, in %s", (era) => {
  test("the tools are the daemon's, and so are their answers, progress and errors", async () => {
    const [stdio, http] = [await program(era), await connect(daemon(), era, undo)];
    expect(await stdio.listTools()).toMatchObject({ tools: (await http.listTools()).tools });
    expect(stdio.getInstructions()).toBe(http.getInstructions());
    const { sandbox } = await call(stdio, "create_sandbox");
    expect(await call(stdio, "get_sandbox", { sandbox })).toEqual(await call(http, "get_sandbox", { sandbox }));
    const heard: Progress[] = [];
    const args = { sandbox, command: "echo done; sleep 1.2" };
    const ran = await call(stdio, "run_command", args, { onprogress: (progress) => void heard.push(progress) });
    expect(ran).toMatchObject({ stdout: "done\n", exit_code: 0 });
    expect(heard[0]).toMatchObject({ progress: 0 });
    expect(await refusal(stdio, "get_sandbox", { sandbox: "nobody" })).toMatch(/'nobody' not found/);
    await expect(call(stdio, "no_such_tool")).rejects.toThrow(/no_such_tool/);

    const cancel = new AbortController();
    const cancelled = call(
      stdio,
      "run_command",
      { sandbox, command: "exec -a cancelled sleep 600" },
      {
        signal: cancel.signal,
        onprogress: () => cancel.abort(),
      },
    );
    await expect(cancelled).rejects.toThrow();
    await eventually("it is killed", async () => {
      const { stdout } = await call(http, "run_command", { sandbox, command: "ps ax -o args | grep -c '^cancelled'" });
      return stdout === "0\n";
    });
    await call(stdio, "delete_sandbox", { sandbox });
  });
});

describe("sandkeep mcp", () => {
  test("says what is wrong if the daemon does not know the key, or there is none", async () => {
    const stranger = program("2025-11-25", { SANDKEEP_API_KEY: "sk_nobody_has_this_key" });
    await expect(stranger).rejects.toThrow(`Cannot use the daemon at "${daemon().url}" with this API key`);
    const empty = await tempDir();
    const none = await runProgram(process.execPath, [main, "mcp", "--data-dir", empty], {});
    expect(none).toMatchObject({
      status: 1,
      stdout: "",
      stderr: expect.stringMatching(/^sandkeep: Cannot find an API key/),
    });
    const help = await runProgram(process.execPath, [main, "mcp", "--help"], {});
    expect(help.stdout).toMatch(/^Usage: sandkeep mcp/);
  });

  test("serves a vendor's tools, or those of a project, if its options say so", async () => {
    const vendor = await program("2025-11-25", {}, ["--tools", "veryfront"]);
    expect((await vendor.listTools()).tools.map(({ name }) => name)).toContain("create_sandbox_session");
    const env = { SANDKEEP_API_KEY: daemon().key, SANDKEEP_URL: daemon().url };
    const nowhere = await runProgram(process.execPath, [main, "mcp", "--project", "no where"], env);
    expect(nowhere).toMatchObject({ status: 1, stderr: expect.stringMatching(/Project not found: "no where"/) });
    const wrong = await runProgram(process.execPath, [main, "mcp", "--tools", "none"], {
      SANDKEEP_API_KEY: daemon().key,
    });
    expect(wrong).toMatchObject({ status: 1, stderr: expect.stringMatching(/there are sandkeep and veryfront/) });
  });

  test.each(["claude", "claude-code", "cursor", "vscode"])("config %s prints what starts it", async (client) => {
    const data = await tempDir();
    await writeFile(join(data, "api-key"), `${daemon().key}\n`);
    const args = [main, "mcp", "config", client, "--url", daemon().url, "--data-dir", data];
    const { stdout, stderr, status } = await runProgram(process.execPath, args, {});
    expect(status).toBe(0);
    expect(stdout).not.toContain("npx");
    expect(stderr).toMatch(client === "claude-code" ? /Run this/ : /Add this to \S*\.json/);
    const started = startedBy(client, stdout);
    expect(started.env ?? {}).toEqual({});
    const pasted = await start("2025-11-25", started.args, {}, started.command);
    expect((await pasted.listTools()).tools.map(({ name }) => name)).toContain("create_sandbox");
  });

  test("config names the program on PATH, with the key where it is in no file", async () => {
    const bin = await tempDir();
    await symlink(launcher, join(bin, "sandkeep"));
    const key = "sk_quoted'key_for_this_test";
    const env = { PATH: `${bin}:${process.env.PATH}`, SANDKEEP_API_KEY: key };
    const { stdout } = await runProgram(
      process.execPath,
      [main, "mcp", "config", "cursor", "--tools", "veryfront"],
      env,
    );
    expect(startedBy("cursor", stdout)).toEqual({
      command: join(bin, "sandkeep"),
      args: ["mcp", "--url", "http://127.0.0.1:7700", "--tools", "veryfront"],
      env: { SANDKEEP_API_KEY: key },
    });
    const shell = await runProgram(process.execPath, [main, "mcp", "config", "claude-code"], env);
    expect(startedBy("claude-code", shell.stdout).env).toEqual({ SANDKEEP_API_KEY: key });
    for (const args of [[], ["emacs"], ["cursor", "too"]]) {
      const wrong = await runProgram(process.execPath, [main, "mcp", "config", ...args], env);
      expect(wrong).toMatchObject({ status: 1, stderr: expect.stringMatching(/^sandkeep: Cannot configure/) });
    }
  });

  test("a client that disconnects ends it", async () => {
    const env = { SANDKEEP_URL: daemon().url, SANDKEEP_API_KEY: daemon().key };
    expect(await runProgram(process.execPath, [main, "mcp"], env)).toMatchObject({ status: 0, stdout: "" });
  });
});

test("examples/mcp.json leads to the daemon both ways", async () => {
  const example = readFileSync(join(root, "examples/mcp.json"), "utf8").replaceAll(
    "http://127.0.0.1:7700",
    daemon().url,
  );
  const { sandkeep, "sandkeep-stdio": stdio } = JSON.parse(example).mcpServers;
  const key = sandkeep.headers.Authorization.replace(/^Bearer \$\{SANDKEEP_API_KEY\}$/, daemon().key);
  const url = sandkeep.url.replace(/\/mcp$/, "");
  const client = await connect({ url, key }, "2025-11-25", undo);
  const data = await tempDir();
  await writeFile(join(data, "api-key"), `${daemon().key}\n`);
  expect(stdio.command).toBe("sandkeep");
  const other = await start("2025-11-25", [main, ...stdio.args], { SANDKEEP_DATA_DIR: data });
  expect(await other.listTools()).toEqual(await client.listTools());
});

test("examples/mcp-stdio.sh calls a tool", async () => {
  const data = await tempDir();
  await writeFile(join(data, "api-key"), `${daemon().key}\n`);
  const args = ["examples/mcp-stdio.sh", "list_sandboxes", "--url", daemon().url, "--data-dir", data];
  const path = `${join(root, "node_modules/.bin")}:${process.env.PATH}`;
  const { stdout, status } = await runProgram("sh", args, { PATH: path, HOME: data });
  expect(JSON.parse(stdout).structuredContent).toMatchObject({ sandboxes: expect.any(Array), next_cursor: null });
  expect(status).toBe(0);
});

interface Started {
  command: string;
  args: string[];
  env?: Record<string, string>;
}

/** the command that a client would start from this configuration */
function startedBy(client: string, pasted: string): Started {
  if (client !== "claude-code") {
    const { mcpServers, servers } = JSON.parse(pasted);
    return (mcpServers ?? servers).sandkeep;
  }
  // A shell splits the line, as it would for the user.
  const script = `claude() { printf '%s\\n' "$@"; }; ${pasted}`;
  const words = execFileSync("sh", ["-c", script], { encoding: "utf8" }).trimEnd().split("\n");
  const at = words.indexOf("--");
  expect(words.slice(0, 5)).toEqual(["mcp", "add", "--transport", "stdio", "sandkeep"]);
  const env = words.slice(5, at).filter((word) => word !== "--env");
  const [command = "", ...args] = words.slice(at + 1);
  return { command, args, env: Object.fromEntries(env.map((pair) => pair.split(/=(.*)/s).slice(0, 2))) };
}

function program(era: Era, env: Record<string, string> = {}, args: string[] = []): Promise<Client> {
  return start(era, [main, "mcp", ...args], { SANDKEEP_URL: daemon().url, SANDKEEP_API_KEY: daemon().key, ...env });
}

async function start(
  era: Era,
  args: string[],
  env: Record<string, string>,
  command = process.execPath,
): Promise<Client> {
  const client = new Client({ name: "test", version: "1" }, negotiation(era));
  const path = { PATH: process.env.PATH ?? "" };
  await client.connect(new StdioClientTransport({ command, args, env: { ...path, ...env } }));
  undo.defer(() => client.close());
  return client;
}
