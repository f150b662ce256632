/**
 * `sandkeep mcp`: the daemon's MCP tools over standard input and output, for clients that start a program. The tools
 * themselves are the daemon's: what they are and what they answer is passed on, progress too, and a call that is
 * cancelled is cancelled there.
 */

import { ProtocolError, Server } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { readArgs } from "../args.ts";
import { apiKey, daemonUrl, type KeyPlaces } from "../connection.ts";
import { ask, type McpDaemon, McpRefusal } from "../mcp-daemon.ts";

export const mcpUsage = `Usage: sandkeep mcp [options]

Serves the daemon's MCP tools over standard input and output, for clients that start a program.

Options:
  --url <url>              where the daemon is (SANDKEEP_URL, http://127.0.0.1:7700)
  --data-dir <directory>   where the daemon's api-key file is, unless SANDKEEP_API_KEY is set
`;

export interface McpWorld extends KeyPlaces {
  version: string;
  print(line: string): void;
  warn(line: string): void;
}

/** resolves once it serves; it ends when its input does */
export async function mcpCommand(args: string[], world: McpWorld): Promise<void> {
  const { values } = readArgs(args, mcpUsage, { url: { type: "string" }, "data-dir": { type: "string" } });
  if (values.help) return world.print(mcpUsage.trimEnd());
  const daemon = { url: daemonUrl(values.url, world.environment), key: apiKey(values["data-dir"], world) };
  serveStdio(() => relay(daemon, world.version), { onerror: (error) => world.warn(error.message) });
}

/** a server whose every answer is the daemon's */
async function relay(daemon: McpDaemon, version: string): Promise<Server> {
  const { instructions } = await ask(daemon, "server/discover", {}).catch((): Record<string, unknown> => ({}));
  const server = new Server(
    { name: "sandkeep", title: "Sandkeep", version },
    {
      capabilities: { tools: { listChanged: false } },
      ...(typeof instructions === "string" && { instructions }),
    },
  );
  server.setRequestHandler("tools/list", async (_, { mcpReq }) => {
    const result = await told(ask(daemon, "tools/list", {}, { signal: mcpReq.signal }));
    // The daemon's own server has seen to it that this is a list of tools.
    return { tools: result.tools as [] };
  });
  server.setRequestHandler("tools/call", async ({ params }, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    const progress = (report: Record<string, unknown>) =>
      void mcpReq
        .notify({ method: "notifications/progress", params: { ...report, progressToken } })
        .catch(() => undefined);
    const { content, structuredContent, isError } = await told(
      ask(
        daemon,
        "tools/call",
        { name: params.name, arguments: params.arguments ?? {} },
        {
          name: params.name,
          signal: mcpReq.signal,
          ...(progressToken !== undefined && { progress }),
        },
      ),
    );
    return { content: content as [], ...(isError === true ? { isError } : { structuredContent }) };
  });
  return server;
}

/** the daemon's refusals are passed on with their codes */
async function told<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw error instanceof McpRefusal ? new ProtocolError(error.code, error.message) : error;
  }
}
