/** Tests of what a tool answers and logs when its work fails. */

import type { McpServer } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { z } from "zod";
import { type McpDialect, tool } from "./tool.ts";

type Handler = (args: object, context: object) => Promise<{ isError?: boolean }>;

/** calls a tool that waits until its caller cancels or that throws the given error; returns what was logged */
async function logged({ reason, error }: { reason?: unknown; error?: unknown }): Promise<unknown[]> {
  const cancelling = new AbortController();
  const log: unknown[] = [];
  const handlers: Handler[] = [];
  const waits = tool({
    name: "wait",
    title: "Wait",
    description: "Wait.",
    input: z.strictObject({}),
    output: z.strictObject({}),
    hints: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    run: async (_, { signal }) => {
      if (error !== undefined) throw error;
      signal.throwIfAborted();
      return {};
    },
  });
  const server = { registerTool: (_name: string, _config: object, handler: Handler) => void handlers.push(handler) };
  const dialect = { logError: (each: unknown) => void log.push(each) };
  // The tool uses nothing else of these.
  waits.addTo(server as unknown as McpServer, dialect as unknown as McpDialect, {} as never);
  if (error === undefined) cancelling.abort(reason);
  const result = await handlers[0]?.({}, { mcpReq: { signal: cancelling.signal } });
  expect(result?.isError).toBe(true);
  return log;
}

test("a call that its client cancels is not an error of ours, whatever the client gives as the reason", async () => {
  expect(await logged({})).toEqual([]);
  expect(await logged({ reason: "any text" })).toEqual([]);
  expect(await logged({ reason: new Error("enough") })).toEqual([]);
});

test("any other error is logged", async () => {
  expect(await logged({ error: "any text" })).toEqual(["any text"]);
});
