/** Makes the server that answers one request, or one session of the older protocol: the same tools for every client. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { McpServer, type McpServerFactory, type McpServerOptions } from "@modelcontextprotocol/server";
import type { Caller } from "../../core/sandbox.ts";
import type { McpDialect, Tool } from "./tool.ts";
import { commandTools } from "./tools/commands.ts";
import { fileTools } from "./tools/files.ts";
import { networkTools } from "./tools/network.ts";
import { sandboxTools } from "./tools/sandboxes.ts";
import { veryfrontTools } from "./tools/veryfront.ts";

/** how long a client may keep the list of tools, in ms: it changes only with another version of the daemon */
const listLife = 300_000;

const instructions = [
  "Sandkeep runs isolated Linux sandboxes for code nobody trusts.",
  "Begin with create_sandbox, which gives a name, and use that name with every other tool:",
  "run_command, read_file, write_file, list_files, search_files, expose_port.",
  "A command that takes long goes on in the background; read_command_output reads on.",
  "A sandbox is stopped when its time is over (extend_sandbox gives it more);",
  "a persistent one keeps its files, and resume_sandbox starts it again.",
  "The tools whose names speak of sandbox sessions are Veryfront's, and take a session's id rather than a name.",
].join(" ");

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../../../package.json"), "utf8"));

/** What is added to the server to test it with the protocol's conformance suite. */
export interface Fixtures {
  options: McpServerOptions;
  addTo(server: McpServer): void;
}

export function serverFactory(dialect: McpDialect, fixtures: () => Promise<Fixtures | undefined>): McpServerFactory {
  const tools = allTools(dialect);
  return async ({ authInfo }) => {
    // The door lets nobody in without one (mcp.ts).
    const caller: Caller = { teamId: authInfo?.clientId ?? "" };
    const extra = await fixtures();
    const server = new McpServer(
      { name: "sandkeep", title: "Sandkeep", version },
      {
        instructions,
        capabilities: { tools: { listChanged: false } },
        cacheHints: { "tools/list": { ttlMs: listLife, cacheScope: "private" } },
        ...extra?.options,
      },
    );
    for (const tool of tools) tool.addTo(server, dialect, caller);
    extra?.addTo(server);
    return server;
  };
}

/** always in the same order: clients show them so, and models are fond of what comes first */
function allTools({ limits }: McpDialect): Tool[] {
  return [...sandboxTools(limits), ...commandTools, ...fileTools, ...networkTools, ...veryfrontTools];
}
