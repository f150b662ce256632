/** An evaluation of @vercel/agent-eval, from the upload of its fixture to the verdict, with an agent that needs no model. */

import { fileURLToPath } from "node:url";
import { loadFixture, registerAgent, runSingleEval } from "@vercel/agent-eval";
import { runWithDefinition } from "./node_modules/@vercel/agent-eval/dist/lib/agents/plugin/orchestrator.js";

const definition = {
  name: "scripted",
  displayName: "Scripted",
  defaultModel: "none",
  o11yAgentName: "codex",
  runnerPath: fileURLToPath(new URL("./agent-eval/scripted-agent.mjs", import.meta.url)),
  getApiKeyEnvVar: () => "SCRIPTED_KEY",
  install: () => [
    { kind: "command", cmd: "node", args: ["--version"], errorPrefix: "Node is missing", errorBody: "stderr" },
  ],
  configFiles: () => [{ viaShell: "echo configured > ~/configured" }],
  authEnv: () => ({}),
};
registerAgent({
  name: definition.name,
  displayName: definition.displayName,
  definition,
  getApiKeyEnvVar: definition.getApiKeyEnvVar,
  getDefaultModel: () => definition.defaultModel,
  run: (fixturePath, options) => runWithDefinition(definition, fixturePath, options),
});

const fixture = loadFixture(fileURLToPath(new URL("./agent-eval", import.meta.url)), "fixture", "none");
const data = await runSingleEval(fixture, {
  agent: "scripted",
  model: "none",
  timeout: 120,
  apiKey: "none",
  scripts: ["check"],
  validation: "none",
  sandbox: "vercel",
});
const written = Object.entries(data.generatedFiles).map(([path, content]) => [path, content.toString()]);
const { status } = data.result;
console.log(JSON.stringify({ status, scripts: data.outputContent.scripts, written, deleted: data.deletedFiles }));
process.exit(0);
