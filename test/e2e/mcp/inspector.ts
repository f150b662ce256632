/** The protocol's inspector on its command line, as a person calls it. */

import { createRequire } from "node:module";
import { afterAll, beforeAll, expect } from "vitest";
import type { TestDaemon } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { compileCache } from "../clients.ts";
import { type Answer, runProgram } from "./mcp.ts";

const require = createRequire(import.meta.url);
const cli = require.resolve("@modelcontextprotocol/inspector/clients/launcher/build/index.js");

export interface Inspector {
  /** its answer, which must come without a warning */
  inspect(method: string, args?: string[], path?: string): Promise<Answer>;
  /** what it prints, whatever that is */
  inspected(method: string, args: string[], path?: string): ReturnType<typeof runProgram>;
}

/** the inspector of a test file, with a home of its own */
export function inspectorOf(daemon: () => TestDaemon): Inspector {
  const undo = new AsyncDisposableStack();
  let home: string;
  beforeAll(async () => {
    home = await tempDir(undo);
  });
  afterAll(() => undo.disposeAsync());

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
    return runProgram(process.execPath, child, { HOME: home, NODE_COMPILE_CACHE: compileCache });
  }

  return {
    inspected,
    async inspect(method, args = [], path = "/mcp") {
      const { stdout, stderr, status } = await inspected(method, args, path);
      expect(stderr, `${method} ${args}`).toBe("");
      expect(status, stdout).toBe(0);
      return JSON.parse(stdout);
    },
  };
}

/** arguments that call a tool */
export function toolCall(name: string, args: object = {}): string[] {
  return ["--tool-name", name, "--tool-args-json", JSON.stringify(args)];
}
