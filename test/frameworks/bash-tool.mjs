/** An agent of the AI SDK with the tools of bash-tool, in a sandbox of the SDK that bash-tool knows. */

import { Sandbox } from "@vercel/sandbox";
import { isStepCount, ToolLoopAgent } from "ai";
import { createBashTool } from "bash-tool";
import { scriptedModel, toolAnswers } from "./scripted-model.mjs";

const sandbox = await Sandbox.create();
const files = { "src/index.js": "console.log('hello from', process.platform)" };
const { tools } = await createBashTool({ sandbox, files });
const script = [
  { tool: "bash", args: { command: "node src/index.js; pwd; echo wrong >&2; exit 3" } },
  { tool: "writeFile", args: { path: "made/below/a.txt", content: "first" } },
  { tool: "readFile", args: { path: "made/below/a.txt" } },
];
const agent = new ToolLoopAgent({ model: scriptedModel(script), tools, stopWhen: isStepCount(5) });
const result = await agent.generate({ prompt: "Run the program" });
await sandbox.stop();
console.log(JSON.stringify({ answers: toolAnswers(result), text: result.text }));
