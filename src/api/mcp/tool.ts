/** Defines a tool: its name, input, output and function, and how its result and errors are returned. */

import type { CallToolResult, McpServer, ServerContext, ToolAnnotations } from "@modelcontextprotocol/server";
import type { z } from "zod";
import { type ErrorCase, isSandkeepError, type SandkeepError } from "../../core/model/errors.ts";
import type { Caller } from "../../core/model/sandbox.ts";
import type { Service, ServiceLimits } from "../kit/dialect.ts";
import { rowFor } from "../kit/refusal.ts";
import { inputSchema, outputSchema, type Vocabulary } from "./schema.ts";

/** What the tools get from the daemon. */
export interface McpDialect extends Pick<Service, "core" | "publicUrl" | "domain" | "closing" | "logError"> {
  limits: McpLimits;
}

export type McpLimits = Pick<ServiceLimits, "ports" | "vcpus" | "timeout">;

/** The caller, and what applies to all calls over its connection. */
export interface Client {
  caller: Caller;
  /** the project that its sandboxes are in; undefined for the default one */
  project?: string | undefined;
}

/** One call of a tool: the caller, and how to report to it during the call. */
export interface Call extends McpDialect, Client {
  /** aborts when the caller cancels the call */
  signal: AbortSignal;
  /** reports progress, if the caller asked for it; ignores values that do not increase */
  progress?: (progress: number, message: string) => void;
}

export interface ToolSpec<I extends z.ZodType, O extends z.ZodType> {
  name: string;
  title: string;
  description: string;
  input: I;
  output: O;
  /** all required, because clients assume the worst by default: that a tool writes, destroys and reaches the network */
  hints: Required<Omit<ToolAnnotations, "title">>;
  vocabulary?: Vocabulary;
  /** what an agent can do about an error that it could not guess, by the error's case */
  advice?: Advice;
  run(args: z.output<I>, call: Call): Promise<z.input<O>>;
}

type Advice = Partial<Record<ErrorCase, string>>;

export interface Tool {
  name: string;
  addTo(server: McpServer, dialect: McpDialect, client: Client): void;
}

export const readOnly = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };
export const additive = { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false };
export const destructive = { ...additive, destructiveHint: true };
/** a repeated call changes nothing */
export const idempotent = { ...additive, idempotentHint: true };

export function tool<I extends z.ZodType, O extends z.ZodType>(spec: ToolSpec<I, O>): Tool {
  const { name, title, description, vocabulary = "draft-2020-12", advice = ownAdvice } = spec;
  const config = {
    title,
    description,
    inputSchema: inputSchema(spec.input, vocabulary),
    outputSchema: outputSchema(spec.output, vocabulary),
    annotations: { title, ...spec.hints },
  };
  return {
    name,
    addTo(server, dialect, client) {
      server.registerTool(name, config, (args, context) =>
        resultOf({ ...dialect, advice, signal: context.mcpReq.signal }, () =>
          spec.run(args as z.output<I>, callOf({ ...dialect, ...client }, context)),
        ),
      );
    },
  };
}

/** the result as structured data, and as text for clients that read only text */
async function resultOf(
  { logError, advice, signal }: Pick<McpDialect, "logError"> & { advice: Advice; signal: AbortSignal },
  work: () => Promise<unknown>,
): Promise<CallToolResult> {
  try {
    const value = await work();
    return { content: [{ type: "text", text: JSON.stringify(value) }], structuredContent: value as object };
  } catch (error) {
    const ours = isSandkeepError(error) && error.code !== "internal";
    if (!ours && !isAbort(error, signal)) logError(error);
    return {
      content: [{ type: "text", text: ours ? sentenceOf(error, advice) : "An internal error occurred" }],
      isError: true,
    };
  }
}

const ownAdvice: Advice = {
  "gone session": "resume_sandbox starts a sandbox again whose files were kept",
};

function sentenceOf(error: SandkeepError, advice: Advice): string {
  const more = rowFor(advice, error);
  return more === undefined ? error.message : `${error.message.replace(/\.$/, "")}; ${more}`;
}

function callOf(base: McpDialect & Client, { mcpReq }: ServerContext): Call {
  const progressToken = mcpReq._meta?.progressToken;
  if (progressToken === undefined) return { ...base, signal: mcpReq.signal };
  let last = -1;
  return {
    ...base,
    signal: mcpReq.signal,
    progress(progress, message) {
      if (progress <= last || mcpReq.signal.aborted) return;
      last = progress;
      // A client that has disconnected misses the report, which does no harm.
      void mcpReq
        .notify({ method: "notifications/progress", params: { progressToken, progress, message } })
        .catch(() => undefined);
    },
  };
}

/** whether it is a cancellation; the client chooses the reason of its own, which may be any text */
function isAbort(error: unknown, { aborted, reason }: AbortSignal): boolean {
  return (error instanceof Error && error.name === "AbortError") || (aborted && error === reason);
}
