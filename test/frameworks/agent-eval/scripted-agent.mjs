/** What @vercel/agent-eval runs inside the sandbox as the agent: it does what the prompt asks, without a model. */

import { existsSync, writeFileSync } from "node:fs";

const { cwd, prompt, resultPath } = JSON.parse(process.argv[2]);
const knowsTheTest = existsSync(`${cwd}/EVAL.ts`);
writeFileSync(`${cwd}/add.mjs`, "export const add = (one, other) => one + other;\n");
const output = `${prompt.trim()} (with the test: ${knowsTheTest})`;
const result = { ok: true, output, transcript: null, observedModel: null, error: null, agentExitCode: 0 };
writeFileSync(resultPath, JSON.stringify(result));
