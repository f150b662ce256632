/** An agent of the AI SDK whose tool works in a session of @ai-sdk/sandbox-vercel. */

import { createVercelSandbox } from "@ai-sdk/sandbox-vercel";
import { isStepCount, ToolLoopAgent, tool } from "ai";
import { z } from "zod";
import { scriptedModel, toolAnswers } from "./scripted-model.mjs";

const provider = createVercelSandbox({ ports: [3000], timeout: 600_000 });
const network = await provider.createSession({ sessionId: "chat" });
const session = network.restricted();
const seen = {};

const shell = tool({
  description: "Run a command",
  inputSchema: z.object({ command: z.string() }),
  execute: ({ command }) => session.run({ command }),
});
const script = [
  { tool: "shell", args: { command: "echo 6 > six.txt; echo wrong >&2; exit 3" } },
  { tool: "shell", args: { command: "expr $(cat six.txt) '*' 7" } },
];
const agent = new ToolLoopAgent({ model: scriptedModel(script), tools: { shell }, stopWhen: isStepCount(5) });
const result = await agent.generate({ prompt: "Compute 6 * 7" });
seen.agent = [toolAnswers(result), result.text];

await session.writeTextFile({ path: "notes/a.txt", content: "first" });
await session.writeBinaryFile({ path: "notes/b.bin", content: new Uint8Array([0, 255, 1]) });
seen.files = [
  await session.readTextFile({ path: "notes/a.txt" }),
  [...(await session.readBinaryFile({ path: "notes/b.bin" }))],
  await session.readTextFile({ path: "nothing" }),
];

await session.writeTextFile({ path: "server.mjs", content: serverSource() });
const server = await session.spawn({ command: "node server.mjs" });
const { url } = await network.getPortEndpoint({ port: 3000 });
seen.port = await answer(url);
await server.kill();
seen.killed = (await server.wait()).exitCode;

await network.setNetworkPolicy({ mode: "deny-all" });
const refused = await session.run({ command: "node -e \"fetch('https://example.com').catch(() => process.exit(7))\"" });
seen.denied = refused.exitCode;

await network.stop();
const resumed = await provider.resumeSession({ sessionId: "chat" });
seen.resumed = await resumed.restricted().readTextFile({ path: "notes/a.txt" });
await resumed.destroy();
console.log(JSON.stringify(seen));

function serverSource() {
  return 'import { createServer } from "node:http"; createServer((_, r) => r.end("served")).listen(3000);';
}

async function answer(address) {
  for (;;) {
    const response = await fetch(address);
    if (response.ok) return response.text();
    await response.text();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
