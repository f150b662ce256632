/**
 * Third-party clients: the protocol's inspector lists and calls every tool without a warning, programs that use
 * standard input and output find the same tools there, and the example for configurations works.
 */

import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { launcher } from "../../../src/installation/installation.ts";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually, root, tempDir } from "../../harness/harness.ts";
import { compileCache } from "../clients.ts";
import {
  type Answer,
  call,
  connect,
  type Era,
  eras,
  negotiation,
  type Progress,
  refusal,
  veryfrontPath,
} from "./mcp.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());

const require = createRequire(import.meta.url);
const main = join(root, "src/main.ts");

describe("the inspector", () => {
  const cli = require.resolve("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
  let home: string;
  beforeAll(async () => {
    home = await tempDir(undo);
  });

  test("lists and calls every tool without a warning", async () => {
    const { tools } = await inspect("tools/list");
    const called = new Set<string>();
    const use = user(called);
    const sandbox = "inspected";
    await use("create_sandbox", { name: sandbox, network_policy: { mode: "allow-all" } });
    const { command_id } = await use("run_command", { sandbox, command: "cat", stdin: true, background: true });
    await inTurns([
      () => use("get_sandbox", { sandbox }),
      () => use("list_sandboxes", { limit: 5 }),
      () => use("extend_sandbox", { sandbox, seconds: 1 }),
      () => use("write_command_input", { sandbox, command_id, data: "x\n" }),
      () => use("read_command_output", { sandbox, command_id }),
      () =>
        use("write_file", { sandbox, path: "a.txt", content: "x" }).then(() =>
          use("read_file", { sandbox, path: "a.txt" }),
        ),
      () => use("list_files", { sandbox }),
      () => use("search_files", { sandbox, glob: "*" }),
      () => use("expose_port", { sandbox, port: 3000 }),
      () => use("set_network_policy", { sandbox, network_policy: { mode: "deny-all" } }),
      () => use("snapshot_sandbox", { sandbox }),
      () => use("fork_sandbox", { sandbox, name: "inspected-too" }),
    ]);
    await use("kill_command", { sandbox, command_id });
    await use("stop_sandbox", { sandbox });
    await use("resume_sandbox", { sandbox });
    await use("delete_sandbox", { sandbox, delete_snapshots: true });
    expect([...called].sort()).toEqual(tools.map(({ name }: { name: string }) => name).sort());
  });

  test("lists and calls every tool of Veryfront's without a warning", async () => {
    const { tools } = await inspect("tools/list", [], veryfrontPath);
    const called = new Set<string>();
    const use = user(called, veryfrontPath);
    const { id } = await use("create_sandbox_session", { ttl_mode: "always_on" });
    await inTurns([
      () => use("list_sandbox_sessions"),
      () => use("get_sandbox_session", { id }),
      () => use("execute_sandbox_command", { id, command: "true" }),
      () => use("start_sandbox_command_job", { id, command: "true" }),
      () => use("list_sandbox_background_commands", { id }),
    ]);
    expect([...called].sort()).toEqual(tools.map(({ name }: { name: string }) => name).sort());
  });

  test("gives no warning in the newer protocol, and distinguishes an error from an answer", async () => {
    const { tools } = await inspect("tools/list", ["--protocol-era", "modern"]);
    expect(tools.length).toBeGreaterThan(15);
    const wrong = await inspected("tools/call", [
      "--tool-name",
      "get_sandbox",
      "--tool-args-json",
      '{"sandbox":"nobody"}',
    ]);
    expect(wrong.status).not.toBe(0);
    expect(wrong.stdout).toContain("'nobody' not found");
  });

  /** calls a tool and records the call */
  function user(called: Set<string>, path?: string) {
    return async (name: string, args: object = {}): Promise<Answer> => {
      called.add(name);
      const answer = await inspect("tools/call", ["--tool-name", name, "--tool-args-json", JSON.stringify(args)], path);
      return answer.structuredContent;
    };
  }

  async function inspect(method: string, args: string[] = [], path = "/mcp"): Promise<Answer> {
    const { stdout, stderr, status } = await inspected(method, args, path);
    expect(stderr, `${method} ${args}`).toBe("");
    expect(status, stdout).toBe(0);
    return JSON.parse(stdout);
  }

  function inspected(method: string, args: string[], path = "/mcp") {
    const target = [
      `${daemon().url}${path}`,
      "--transport",
      "http",
      "--header",
      `Authorization: Bearer ${daemon().key}`,
    ];
    const strict = method === "tools/list" ? ["--strict"] : [];
    const child = [cli, "--cli", ...target, "--connect-timeout", "60000", ...strict, "--method", method, ...args];
    return run(process.execPath, child, { HOME: home, NODE_COMPILE_CACHE: compileCache });
  }
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
    const none = await run(process.execPath, [main, "mcp", "--data-dir", empty], {});
    expect(none).toMatchObject({
      status: 1,
      stdout: "",
      stderr: expect.stringMatching(/^sandkeep: Cannot find an API key/),
    });
    const help = await run(process.execPath, [main, "mcp", "--help"], {});
    expect(help.stdout).toMatch(/^Usage: sandkeep mcp/);
  });

  test("serves a vendor's tools, or those of a project, if its options say so", async () => {
    const vendor = await program("2025-11-25", {}, ["--tools", "veryfront"]);
    expect((await vendor.listTools()).tools.map(({ name }) => name)).toContain("create_sandbox_session");
    const env = { SANDKEEP_API_KEY: daemon().key, SANDKEEP_URL: daemon().url };
    const nowhere = await run(process.execPath, [main, "mcp", "--project", "no where"], env);
    expect(nowhere).toMatchObject({ status: 1, stderr: expect.stringMatching(/Project not found: "no where"/) });
    const wrong = await run(process.execPath, [main, "mcp", "--tools", "none"], { SANDKEEP_API_KEY: daemon().key });
    expect(wrong).toMatchObject({ status: 1, stderr: expect.stringMatching(/there are sandkeep and veryfront/) });
  });

  test.each(["claude", "claude-code", "cursor", "vscode"])("config %s prints what starts it", async (client) => {
    const data = await tempDir();
    await writeFile(join(data, "api-key"), `${daemon().key}\n`);
    const args = [main, "mcp", "config", client, "--url", daemon().url, "--data-dir", data];
    const { stdout, stderr, status } = await run(process.execPath, args, {});
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
    const { stdout } = await run(process.execPath, [main, "mcp", "config", "cursor", "--tools", "veryfront"], env);
    expect(startedBy("cursor", stdout)).toEqual({
      command: join(bin, "sandkeep"),
      args: ["mcp", "--url", "http://127.0.0.1:7700", "--tools", "veryfront"],
      env: { SANDKEEP_API_KEY: key },
    });
    const shell = await run(process.execPath, [main, "mcp", "config", "claude-code"], env);
    expect(startedBy("claude-code", shell.stdout).env).toEqual({ SANDKEEP_API_KEY: key });
    for (const args of [[], ["emacs"], ["cursor", "too"]]) {
      const wrong = await run(process.execPath, [main, "mcp", "config", ...args], env);
      expect(wrong).toMatchObject({ status: 1, stderr: expect.stringMatching(/^sandkeep: Cannot configure/) });
    }
  });

  test("a client that disconnects ends it", async () => {
    const env = { SANDKEEP_URL: daemon().url, SANDKEEP_API_KEY: daemon().key };
    expect(await run(process.execPath, [main, "mcp"], env)).toMatchObject({ status: 0, stdout: "" });
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
  const { stdout, status } = await run("sh", args, { PATH: path, HOME: data });
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

async function run(file: string, args: string[], env: Record<string, string>) {
  const child = spawn(file, args, {
    cwd: root,
    env: { PATH: process.env.PATH, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const [stdout, stderr, status] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { stdout, stderr, status };
}

/** runs a few at a time: each takes most of a processor while it starts */
async function inTurns(works: (() => Promise<unknown>)[], atOnce = 3): Promise<void> {
  const rest = [...works];
  const worker = async () => {
    for (let work = rest.shift(); work; work = rest.shift()) await work();
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
