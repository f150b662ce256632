/**
 * An agent with Mastra that computes in a sandbox, over streamable HTTP. With a daemon running:
 *
 *   npm install @mastra/core @mastra/mcp
 *   SANDKEEP_API_KEY=… OPENAI_API_KEY=… node mcp-mastra.ts   (Node 22.18 or later)
 */

import { Agent } from "@mastra/core/agent";
import { MCPClient } from "@mastra/mcp";

const { SANDKEEP_URL = "http://127.0.0.1:7700", SANDKEEP_API_KEY } = process.env;
const { OPENAI_BASE_URL = "https://api.openai.com/v1", OPENAI_API_KEY } = process.env;

const sandkeep = new MCPClient({
  servers: {
    sandkeep: {
      url: new URL(`${SANDKEEP_URL}/mcp`),
      requestInit: { headers: { Authorization: `Bearer ${SANDKEEP_API_KEY}` } },
    },
  },
});
try {
  const agent = new Agent({
    id: "calculator",
    name: "Calculator",
    instructions: "You compute with programs.",
    model: { id: "openai/gpt-5-mini", url: OPENAI_BASE_URL, apiKey: OPENAI_API_KEY },
    tools: await sandkeep.listTools(),
  });
  const { text } = await agent.generate("Compute 6 * 7 with Python in a sandbox, then delete the sandbox.", {
    maxSteps: 10,
  });
  console.log(text);
} finally {
  await sandkeep.disconnect();
}
