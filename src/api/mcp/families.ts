/**
 * The families of tools and their paths. A model chooses badly between two tools that do the same, and each tool costs
 * tokens in every request. So each path has one family: ours, unless the path names a vendor.
 */

import type { FamilyPath } from "./paths.ts";
import type { McpDialect, Tool } from "./tool.ts";
import { commandTools } from "./tools/commands.ts";
import { fileTools } from "./tools/files.ts";
import { networkTools } from "./tools/network.ts";
import { sandboxTools } from "./tools/sandboxes.ts";
import { veryfrontTools } from "./tools/veryfront.ts";

export interface Family {
  path: FamilyPath;
  /** text that the model reads before any tool */
  instructions: string;
  /** always in the same order: clients show them in it, and models prefer the first */
  tools(dialect: McpDialect): Tool[];
}

export const families: Family[] = [
  {
    path: "/mcp",
    instructions: [
      "Sandkeep runs isolated Linux sandboxes, in which any code may run without harm to this host.",
      "Begin with create_sandbox, and pass the name that it returns to every other tool as sandbox.",
      "run_command runs shell commands; read_file, write_file, list_files and search_files work on files;",
      "expose_port gives a server inside a URL.",
      "A command that takes long continues in the background, and read_command_output reads on.",
      "A sandbox stops by itself at expires_at; extend_sandbox postpones that.",
      "A persistent sandbox keeps its files when it stops, and resume_sandbox starts it again.",
    ].join(" "),
    tools: ({ limits }) => [...sandboxTools(limits), ...commandTools, ...fileTools, ...networkTools],
  },
  {
    path: "/mcp/veryfront",
    instructions: [
      "Sandkeep runs isolated Linux sandboxes; these are the tools of Veryfront's MCP server.",
      "Begin with create_sandbox_session, and pass the id that it returns to every other tool.",
      "execute_sandbox_command runs a shell command and waits; start_sandbox_command_job does not wait.",
    ].join(" "),
    tools: () => veryfrontTools,
  },
];
