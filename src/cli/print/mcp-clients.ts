/** How to configure MCP clients to start a server: what to paste, and where. */

import { shellWord } from "./output.ts";

/** The program that a client starts. */
export interface Program {
  /** an absolute path: graphical clients have another PATH than a terminal */
  command: string;
  args: string[];
}

interface ClientConfig {
  /** a sentence for the person who pastes it */
  place: string;
  lines: string[];
}

export const clientNames = ["claude", "claude-code", "cursor", "vscode"] as const;

type ClientName = (typeof clientNames)[number];
type Started = Program & { env: Record<string, string> };

export function clientConfig(client: ClientName, started: Started): ClientConfig {
  return clients[client](started);
}

const clients: Record<ClientName, (started: Started) => ClientConfig> = {
  claude: (started) => ({
    place: "Add this to claude_desktop_config.json (Settings, Developer, Edit Config):",
    lines: json({ mcpServers: { sandkeep: entry(started) } }),
  }),
  "claude-code": ({ command, args, env }) => ({
    place: "Run this in the project that shall use it:",
    lines: [
      [
        "claude mcp add --transport stdio sandkeep",
        ...Object.entries(env).map(([name, value]) => `--env ${shellWord(`${name}=${value}`)}`),
        "--",
        ...[command, ...args].map(shellWord),
      ].join(" "),
    ],
  }),
  cursor: (started) => ({
    place: "Add this to .cursor/mcp.json in a project, or to ~/.cursor/mcp.json:",
    lines: json({ mcpServers: { sandkeep: entry(started) } }),
  }),
  vscode: (started) => ({
    place: "Add this to .vscode/mcp.json in a project:",
    lines: json({ servers: { sandkeep: { type: "stdio", ...entry(started) } } }),
  }),
};

function entry({ command, args, env }: Started): object {
  return { command, args, ...(Object.keys(env).length > 0 && { env }) };
}

function json(value: object): string[] {
  return JSON.stringify(value, null, 2).split("\n");
}
