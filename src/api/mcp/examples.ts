/** How an agent gets the tools, as the dashboard shows it. */

import type { Example, ExamplePlace } from "../kit/dialect.ts";

export function mcpExamples({ url }: ExamplePlace): Example[] {
  const text = `sandkeep mcp config claude-code --url ${url}

# or, for clients that speak streamable HTTP:
{
  "mcpServers": {
    "sandkeep": { "url": "${url}/mcp", "headers": { "Authorization": "Bearer <API key>" } }
  }
}`;
  return [{ title: "MCP", text }];
}
