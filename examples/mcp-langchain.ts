/**
 * An agent with LangChain that computes in a sandbox, over streamable HTTP. With a daemon running:
 *
 *   npm install langchain @langchain/core @langchain/mcp-adapters @langchain/openai
 *   SANDKEEP_API_KEY=… OPENAI_API_KEY=… node mcp-langchain.ts   (Node 22.18 or later)
 */

import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent } from "langchain";

const { SANDKEEP_URL = "http://127.0.0.1:7700", SANDKEEP_API_KEY } = process.env;

const sandkeep = new MultiServerMCPClient({
  sandkeep: {
    transport: "http",
    url: `${SANDKEEP_URL}/mcp`,
    headers: { Authorization: `Bearer ${SANDKEEP_API_KEY}` },
  },
});
try {
  const agent = createAgent({ model: new ChatOpenAI({ model: "gpt-5-mini" }), tools: await sandkeep.getTools() });
  const { messages } = await agent.invoke({
    messages: [{ role: "user", content: "Compute 6 * 7 with Python in a sandbox, then delete the sandbox." }],
  });
  console.log(messages.at(-1)?.content);
} finally {
  await sandkeep.close();
}
