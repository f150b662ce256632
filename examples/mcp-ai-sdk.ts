/**
 * An agent with Vercel's AI SDK that computes in a sandbox, over streamable HTTP. With a daemon running:
 *
 *   npm install ai @ai-sdk/mcp @ai-sdk/openai
 *   SANDKEEP_API_KEY=… OPENAI_API_KEY=… node mcp-ai-sdk.ts   (Node 22.18 or later)
 */

import { createMCPClient } from "@ai-sdk/mcp";
import { openai } from "@ai-sdk/openai";
import { generateText, isStepCount, type ToolSet } from "ai";

const { SANDKEEP_URL = "http://127.0.0.1:7700", SANDKEEP_API_KEY } = process.env;

const sandkeep = await createMCPClient({
  transport: {
    type: "http",
    url: `${SANDKEEP_URL}/mcp`,
    headers: { Authorization: `Bearer ${SANDKEEP_API_KEY}` },
  },
});
try {
  const { text } = await generateText({
    model: openai.chat("gpt-5-mini"),
    tools: (await sandkeep.tools()) as ToolSet, // the types of the two packages differ in what may be undefined
    stopWhen: isStepCount(10),
    prompt: "Compute 6 * 7 with Python in a sandbox, then delete the sandbox.",
  });
  console.log(text);
} finally {
  await sandkeep.close();
}
