/**
 * Tests of `sandkeep mcp`: its output for clients, its refusals at the start, and that it answers all piped requests.
 */

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, onTestFinished, test } from "vitest";
import { root, tempDir } from "../../../test/harness/harness.ts";
import { type McpContext, mcpCommand } from "./mcp.ts";

test("the printed configuration has the variables that a client needs", async () => {
  const dataDir = join(await tempDir(), "data dir");
  await mkdir(dataDir);
  await writeFile(join(dataDir, "api-key"), "sk_x\n");
  const environment = { SANDKEEP_DATA_DIR: dataDir, SANDKEEP_PORT: "7811", NODE_EXTRA_CA_CERTS: "/ca.pem" };
  expect((await run(["config", "claude-code"], environment)).lines).toEqual([
    `claude mcp add --transport stdio sandkeep --env NODE_EXTRA_CA_CERTS=/ca.pem -- /usr/local/bin/sandkeep mcp --url http://127.0.0.1:7811 --data-dir '${dataDir}'`,
  ]);
  const entry = { command: "/usr/local/bin/sandkeep", args: ["mcp", "--url", "http://k.example"] };
  const withKey = { ...environment, SANDKEEP_URL: "http://k.example", SANDKEEP_API_KEY: "sk_x" };
  const env = { SANDKEEP_API_KEY: "sk_x", NODE_EXTRA_CA_CERTS: "/ca.pem" };
  for (const client of ["claude", "cursor"]) {
    const { lines } = await run(["config", client], withKey);
    expect(JSON.parse(lines.join("\n"))).toEqual({ mcpServers: { sandkeep: { ...entry, env } } });
  }
});

test("a relative directory is printed as an absolute path, since a client starts programs elsewhere", async () => {
  const { lines } = await run(["config", "claude-code", "--data-dir", "data"], { SANDKEEP_API_KEY: "sk_x" });
  expect(lines[0]).toMatch(new RegExp(`--data-dir ${process.cwd()}/data$`));
});

test("docs/mcp.md shows the real output", async () => {
  const docs = readFileSync(join(root, "docs/mcp.md"), "utf8");
  for (const args of [
    ["config", "claude-code"],
    ["config", "cursor", "--project", "web"],
  ]) {
    const { lines, warnings } = await run(args, {});
    const printed = [`$ sandkeep mcp ${args.join(" ")}`, `sandkeep: ${warnings[0]}`, ...lines, ""];
    expect(docs).toContain(printed.join("\n"));
  }
});

test("a misspelt client suggests the right one", async () => {
  await expect(run(["config", "cursr"], {})).rejects.toThrow('there is no such client. Did you mean "cursor"?');
  await expect(run(["config", "foo"], {})).rejects.toThrow("there is no such client. There are claude, claude-code, ");
});

test("a configuration without a key that its client could read is refused", async () => {
  const dataDir = await tempDir();
  await expect(run(["config", "claude", "--data-dir", dataDir], {})).rejects.toThrow(
    `Cannot find an API key: SANDKEEP_API_KEY is not set, and there is none to read in "${dataDir}/api-key"\nhint: `,
  );
});

test("a project that the daemon does not know is refused at the start", async () => {
  const server = createServer(({ url }, response) => {
    if (url === "/health") response.end('{"status":"ok"}');
    else response.writeHead(404).end('{"error":{"message":"Project not found."}}');
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  expect(await run(["--project", "nope", "--url", url], { SANDKEEP_API_KEY: "sk_x" })).toMatchObject({
    code: 1,
    warnings: [`Cannot use the daemon at "${url}" with this API key in the project "nope": Project not found.`],
  });
});

test("requests before the end of the input are answered, also if it ends while the daemon is asked", async () => {
  const server = createServer(({ url }, response) => {
    // The input has ended by then.
    if (url === "/health") setTimeout(() => response.end('{"status":"ok"}'), 100);
    else response.end("{}");
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
  const request = `${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params })}\n`;
  const output = new PassThrough();
  const code = await mcpCommand(["--url", `http://127.0.0.1:${(server.address() as AddressInfo).port}`], {
    ...context({ SANDKEEP_API_KEY: "sk_x" }),
    input: Readable.from([Buffer.from(request)]),
    output: output as unknown as NodeJS.WriteStream,
  });
  expect(code).toBe(undefined);
  const [answer] = await once(output, "data");
  expect(JSON.parse(String(answer))).toMatchObject({ id: 1, result: { serverInfo: { name: "sandkeep" } } });
});

test("a line that is no message is left out with one sentence", async () => {
  const server = createServer(({ url }, response) => void response.end(url === "/health" ? '{"status":"ok"}' : "{}"));
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const warned = new Promise((resolve) => {
    void mcpCommand(["--url", `http://127.0.0.1:${(server.address() as AddressInfo).port}`], {
      ...{ ...context({ SANDKEEP_API_KEY: "sk_x" }), input: Readable.from([Buffer.from("{}\n")]), warn: resolve },
      output: new PassThrough() as unknown as NodeJS.WriteStream,
    });
  });
  expect(await warned).toBe("Left out a line of the input: it is not a message of JSON-RPC 2.0");
});

test("requests before the end of the input are answered, with the reason if the daemon cannot be used", () => {
  const clientInfo = { name: "test", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  const requests = [
    { jsonrpc: "2.0", id: 1, method: "initialize", params },
    { jsonrpc: "2.0", method: "notifications/initialized" },
    { jsonrpc: "2.0", id: "two", method: "tools/list" },
  ];
  const input = requests.map((request) => `${JSON.stringify(request)}\n`).join("");
  const args = [join(root, "src/main.ts"), "mcp", "--url", "http://127.0.0.1:1"];
  const env = { ...process.env, SANDKEEP_API_KEY: "sk_x" };
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { input, env, encoding: "utf8" });
  const message =
    'Cannot reach the daemon at "http://127.0.0.1:1": nothing answers there\nhint: start it with: sandkeep serve';
  expect({ status, stderr }).toEqual({ status: 1, stderr: `sandkeep: ${message}\n` });
  const answers = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(answers).toEqual([1, "two"].map((id) => ({ jsonrpc: "2.0", id, error: { code: -32_603, message } })));
});

test("a client's connection fails with the reason, in both generations of the protocol", async () => {
  for (const mode of ["legacy", "auto"] as const) {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [join(root, "src/main.ts"), "mcp", "--url", "http://127.0.0.1:1"],
      env: { SANDKEEP_API_KEY: "sk_x" },
      stderr: "ignore",
    });
    const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
    await expect(client.connect(transport)).rejects.toThrow("nothing answers there");
    await client.close();
  }
});

async function run(args: string[], environment: NodeJS.ProcessEnv) {
  const lines: string[] = [];
  const warnings: string[] = [];
  const folder = await tempDir();
  await writeFile(join(folder, "api-key"), "sk_of_a_file\n");
  const code = await mcpCommand(args, {
    ...context(environment),
    dataDirs: [folder],
    print: (line) => void lines.push(line),
    warn: (line) => void warnings.push(line),
  });
  return { code, lines, warnings };
}

function context(environment: NodeJS.ProcessEnv): McpContext {
  return {
    environment,
    dataDirs: [],
    version: "0",
    input: Readable.from([]),
    output: process.stdout,
    program: { command: "/usr/local/bin/sandkeep", args: [] },
    print: () => undefined,
    warn: () => undefined,
  };
}
