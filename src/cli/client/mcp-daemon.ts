/**
 * Sends a request to a daemon over MCP, revision 2026-07-28: one request, one answer, and progress reports in between.
 * The answer is JSON, or a stream of events if there is progress to report. Closing the connection cancels the request.
 */

import { CliError } from "../errors.ts";
import { unreachable } from "./reachability.ts";

export interface McpDaemon {
  /** scheme, host and port */
  url: string;
  key: string;
  /** path of the tools, such as "/mcp" */
  path: string;
  /** further headers of each request */
  headers?: Record<string, string>;
}

export interface AskOptions {
  /** the name of the request's subject, which the protocol requires in a header too */
  name?: string;
  signal?: AbortSignal;
  /** called with the parameters of progress notifications */
  progress?: (params: Record<string, unknown>) => void;
}

/** An error answer of the daemon. */
export class McpRefusal extends Error {
  override readonly name = "McpRefusal";
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

const revision = "2026-07-28";
const prefix = "io.modelcontextprotocol";

export async function ask(
  { url, key, path, headers }: McpDaemon,
  method: string,
  params: Record<string, unknown>,
  { name, signal, progress }: AskOptions = {},
): Promise<Record<string, unknown>> {
  const meta = {
    [`${prefix}/protocolVersion`]: revision,
    [`${prefix}/clientCapabilities`]: {},
    ...(progress && { progressToken: 1 }),
  };
  const response = await fetch(new URL(path, url), {
    method: "POST",
    headers: {
      ...headers,
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": revision,
      "mcp-method": method,
      ...(name !== undefined && { "mcp-name": headerValue(name) }),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: meta } }),
    ...(signal && { signal }),
  }).catch((cause) => {
    if (signal?.aborted) throw cause;
    throw unreachable(url, cause);
  });
  for await (const message of messagesOf(response)) {
    if (message.method === "notifications/progress") progress?.(recordOf(message.params));
    if ("error" in message) throw refusalOf(message.error);
    if ("result" in message) return recordOf(message.result);
  }
  throw new CliError(`Cannot ask the daemon at "${url}": it says ${response.status}`);
}

async function* messagesOf(response: Response): AsyncGenerator<Record<string, unknown>> {
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
    yield parsed(await response.text());
    return;
  }
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    const events = (rest + decoder.decode(chunk, { stream: true })).split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) {
      const data = event.split("\n").flatMap((line) => (line.startsWith("data:") ? [line.slice(5).trim()] : []));
      if (data.length > 0) yield parsed(data.join("\n"));
    }
  }
}

/** the name, encoded as the protocol defines if an HTTP header cannot hold it unchanged */
function headerValue(name: string): string {
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(name)) return name;
  return `=?base64?${Buffer.from(name).toString("base64")}?=`;
}

function parsed(text: string): Record<string, unknown> {
  try {
    return recordOf(JSON.parse(text));
  } catch {
    return {};
  }
}

function refusalOf(error: unknown): McpRefusal | CliError {
  const { code, message } = recordOf(error);
  if (typeof code === "number") return new McpRefusal(code, String(message));
  return new CliError("The daemon does not know this API key", "set SANDKEEP_API_KEY, or name its --data-dir");
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? Object.fromEntries(Object.entries(value)) : {};
}
