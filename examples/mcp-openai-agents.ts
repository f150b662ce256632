/**
 * An agent with OpenAI's Agents SDK that computes in a sandbox; it starts `sandkeep mcp` and speaks to it over standard
 * input and output. With a daemon running and `sandkeep` installed:
 *
 *   npm install @openai/agents
 *   SANDKEEP_API_KEY=… OPENAI_API_KEY=… node mcp-openai-agents.ts   (Node 22.18 or later)
 */

import { Agent, MCPServerStdio, run, setOpenAIAPI, setTracingDisabled } from "@openai/agents";

const { PATH = "", SANDKEEP_URL = "http://127.0.0.1:7700", SANDKEEP_API_KEY = "" } = process.env;
setOpenAIAPI("chat_completions");
setTracingDisabled(true);

const sandkeep = new MCPServerStdio({
  name: "sandkeep",
  command: "sandkeep",
  args: ["mcp"],
  env: { PATH, SANDKEEP_URL, SANDKEEP_API_KEY },
});
await sandkeep.connect();
try {
  const agent = new Agent({ name: "Calculator", model: "gpt-5-mini", mcpServers: [sandkeep] });
  const { finalOutput } = await run(agent, "Compute 6 * 7 with Python in a sandbox, then delete the sandbox.");
  console.log(finalOutput);
} finally {
  await sandkeep.close();
}
