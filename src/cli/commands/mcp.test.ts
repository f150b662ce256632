/**
 * Tests of `sandkeep mcp`: its output for clients, its refusals at the start, and that it answers all piped requests.
 */

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { root } from "../../../test/harness/harness.ts";
import { mcpCommand } from "./mcp.ts";

test("the printed configuration has the variables that a client needs", async () => {
  const environment = { SANDKEEP_DATA_DIR: "/data dir", SANDKEEP_PORT: "7811", NODE_EXTRA_CA_CERTS: "/ca.pem" };
  expect((await run(["config", "claude-code"], environment)).lines).toEqual([
    "claude mcp add --transport stdio sandkeep --env NODE_EXTRA_CA_CERTS=/ca.pem -- /usr/local/bin/sandkeep mcp --url http://127.0.0.1:7811 --data-dir '/data dir'",
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
  const { lines } = await run(["config", "claude-code", "--data-dir", "data"], {});
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
});

test("a project that the daemon does not know is refused at the start", async () => {
  const server = createServer((_, response) => {
    response.writeHead(404).end('{"error":{"message":"Project not found."}}');
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await expect(run(["--project", "nope", "--url", url], { SANDKEEP_API_KEY: "sk_x" })).rejects.toThrow(
    `Cannot use the daemon at "${url}" with this API key in the project "nope": Project not found.`,
  );
});

test("requests before the end of the input are answered", () => {
  const clientInfo = { name: "test", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  const input = `${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params })}\n`;
  const args = [join(root, "src/main.ts"), "mcp", "--url", "http://127.0.0.1:1"];
  const env = { ...process.env, SANDKEEP_API_KEY: "sk_x" };
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { input, env, encoding: "utf8" });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(JSON.parse(stdout)).toMatchObject({ id: 1, result: { serverInfo: { name: "sandkeep" } } });
});

async function run(args: string[], environment: NodeJS.ProcessEnv) {
  const lines: string[] = [];
  const warnings: string[] = [];
  await mcpCommand(args, {
    environment,
    dataDirs: [],
    version: "0",
    program: { command: "/usr/local/bin/sandkeep", args: [] },
    print: (line) => void lines.push(line),
    warn: (line) => void warnings.push(line),
  });
  return { lines, warnings };
}
