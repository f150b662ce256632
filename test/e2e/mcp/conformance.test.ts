/**
 * The protocol's own conformance suite against a daemon that offers what the suite needs. The suite sends no keys, so a
 * proxy adds one to each request, and leaves everything else unchanged.
 */

import { spawn } from "node:child_process";
import { createServer, request } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { root, tempDir } from "../../harness/harness.ts";
import { connect } from "./mcp.ts";

const daemon = daemonOfFile({ SANDKEEP_CONFORMANCE_FIXTURES: "true" });
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());

const require = createRequire(import.meta.url);
const suite = require.resolve("@modelcontextprotocol/conformance/dist/index.js");

test.each(["2025-11-25", "2026-07-28"])("everything that %s requires of a server passes", async (revision) => {
  const url = `${await keyed()}/mcp`;
  const args = ["server", "--url", url, "--requirements", revision, "--timeout", "60000", "-o", await tempDir()];
  const child = spawn(process.execPath, [suite, ...args], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const [said, , status] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  const summary = said.slice(said.indexOf("=== SUMMARY ==="));
  const [, notScored = ""] = summary.split("Not scored");
  const failed = [...summary.matchAll(/^✗ ([\w-]+):/gm)].map(([, name = ""]) => name);
  expect(failed.filter((name) => !notScored.includes(`✗ ${name} (`))).toEqual([]);
  expect([...summary.matchAll(/^✓ ([\w-]+):/gm)].length).toBeGreaterThan(30);
  // Of what is not required, only the extension for tasks is missing.
  expect(failed.filter((name) => !name.startsWith("tasks-"))).toEqual([]);
  expect(status).toBe(0);
});

test("the daemon's tools are listed beside the fixtures", async () => {
  const client = await connect(daemon(), "2026-07-28", undo);
  const names = (await client.listTools()).tools.map(({ name }) => name);
  expect(names).toContain("create_sandbox");
  expect(names).toContain("test_simple_text");
});

/** the address of a proxy that adds the daemon's key */
async function keyed(): Promise<string> {
  const { url, key } = daemon();
  const { hostname, port } = new URL(url);
  const server = createServer((incoming, outgoing) => {
    const { method, url: path } = incoming;
    const headers = { ...incoming.headers, authorization: `Bearer ${key}` };
    const onward = request({ hostname, port, method, path, headers, setHost: false }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      outgoing.flushHeaders();
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => onward.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  undo.defer(async () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
