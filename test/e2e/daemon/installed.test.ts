/** What `npm install --global sandkeep` gives: a `sandkeep` that works, on whatever Node the host has. */

import { execFile } from "node:child_process";
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import manifest from "../../../package.json" with { type: "json" };
import { startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { demand, has } from "../../runner/needs.ts";
import { hostNpm, type Installation, install, pack, unreachable } from "./installed.ts";

const execute = promisify(execFile);
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());

let tarball: string;
beforeAll(async () => {
  tarball = await pack(undo, hostNpm());
});

test("the tarball is small and has JavaScript, the native part's sources and documents, but no development files", async () => {
  expect(statSync(tarball).size).toBeLessThan(10e6);
  const { stdout } = await execute("tar", ["-tzf", tarball]);
  const files = stdout.trim().split("\n");
  // The documents link to the examples, which are programs of their own.
  const product = files.filter((file) => !file.startsWith("package/examples/"));
  expect(product.filter((file) => /\.ts$|\.test\.|^package\/(test|bench|\.ci)\/|guest\/test/.test(file))).toEqual([]);
  for (const file of ["bin/sandkeep", "dist/main.js", "dist/egress.js", "guest/main.c", "docs/vercel.md"])
    expect(files).toContain(`package/${file}`);
});

describe("installed by this host's npm", () => {
  let installation: Installation;
  let reason: string | undefined;
  beforeAll(async () => {
    try {
      installation = await install(undo, hostNpm(), tarball);
    } catch (error) {
      reason = unreachable(error);
    }
  });

  test("it answers to known and unknown commands", async ({ skip }) => {
    skip(reason !== undefined, reason);
    expect((await sandkeep("--version")).stdout).toBe(`${manifest.version}\n`);
    expect((await sandkeep("--help")).stdout).toContain("Usage: sandkeep <command>");
    await expect(sandkeep("nonsense")).rejects.toMatchObject({ code: 1, stderr: /^sandkeep: Cannot do "nonsense"/ });
  });

  test("doctor examines this host with a Node that can run the daemon", async ({ skip }) => {
    skip(reason !== undefined, reason);
    const { stdout } = await sandkeep("doctor", "--json").catch((error) => error);
    expect(Number.parseInt(JSON.parse(stdout).facts.node, 10)).toBeGreaterThanOrEqual(24);
  });

  test("the files that it tells a shell to load into other programs exist", async ({ skip }) => {
    skip(reason !== undefined, reason);
    const env = { PATH: installation.path, SANDKEEP_API_KEY: "sk_x", NODE_OPTIONS: "", PYTHONPATH: "" };
    const script =
      'eval "$(sandkeep env vercel --url http://127.0.0.1:1 2>/dev/null)" && echo "$NODE_OPTIONS" && echo "$PYTHONPATH"';
    const { stdout } = await execute("sh", ["-c", script], { env });
    const [preload = "", pythonPath] = stdout.split("\n");
    expect(existsSync(fileURLToPath(preload.replace("--import=", "")))).toBe(true);
    expect(existsSync(`${pythonPath}/sitecustomize.py`)).toBe(true);
  });

  describe("the daemon", () => {
    let daemon: TestDaemon;
    beforeAll(async () => {
      if (reason !== undefined || !has("root")) return;
      daemon = await startDaemon(
        undo,
        {},
        {
          command: [installation.command, "serve"],
          path: installation.path,
        },
      );
    });

    test("compiles its native part at the first start, says so, and is ready", async ({ skip }) => {
      skip(reason !== undefined, reason);
      demand("root");
      expect(daemon.said()).toMatch(/^Compiling the native program into .*\/guest\/build, once for this version …$/m);
      // It is on PATH, so the line to paste is the short one.
      const line = `eval "$(sandkeep env vercel --url ${daemon.url} --data-dir ${daemon.dataDir})"`;
      await eventually("the line to paste is printed", () => daemon.said().includes(line));
      expect(statSync(`${installation.folder}/guest/build/sandkeep-guest`).mode & 0o111).not.toBe(0);
      expect(readFileSync(`/proc/${daemon.pid}/cmdline`, "utf8")).toContain(
        `${realpathSync(installation.folder)}/dist/main.js`,
      );
    });

    test("it serves the dashboard's page, and every file that the page names", async ({ skip }) => {
      skip(reason !== undefined, reason);
      demand("root");
      const page = await (await fetch(daemon.url, { headers: { accept: "text/html" } })).text();
      const named = [...page.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, path = ""]) => path);
      expect(named.length).toBeGreaterThan(8);
      const statuses = named.map(async (path) => `${path} ${(await fetch(new URL(path, daemon.url))).status}`);
      expect(await Promise.all(statuses)).toEqual(named.map((path) => `${path} 200`));
    });

    test("its tools are available over standard input and output, and run a command in a sandbox", async ({ skip }) => {
      skip(reason !== undefined, reason);
      demand("root");
      const transport = new StdioClientTransport({ command: installation.command, args: ["mcp"], env: environment() });
      const client = new Client({ name: "test", version: "1" });
      await client.connect(transport);
      try {
        await client.callTool({ name: "create_sandbox", arguments: { name: "first" } });
        const call = { name: "run_command", arguments: { sandbox: "first", command: "node --version" } };
        const { structuredContent } = await client.callTool(call);
        expect(structuredContent).toMatchObject({ exit_code: 0, stdout: expect.stringMatching(/^v24\./) });
      } finally {
        await client.close();
      }
    });

    function environment(): Record<string, string> {
      return { PATH: installation.path, SANDKEEP_URL: daemon.url, SANDKEEP_API_KEY: daemon.key };
    }
  });

  function sandkeep(...args: string[]) {
    return execute(installation.command, args, { env: { PATH: installation.path } });
  }
});
