#!/usr/bin/env node
/**
 * A small program in place of a coding agent, run inside a sandbox: it asks the model's API with the key of its
 * environment, runs the shell command that the model wants, and prints what the model says. It fails if its task says so.
 */

import { spawnSync } from "node:child_process";

const task = process.argv.at(-1) ?? "";
if (task === "fail") process.exit(7);
const { ANTHROPIC_API_KEY, CODEX_API_KEY } = process.env;
/** @type {{ role: string; content: unknown }[]} */
const conversation = [{ role: "user", content: task }];

for (;;) {
  const events = CODEX_API_KEY ? await asked("responses") : await asked("messages");
  const command = events.match(/"(?:partial_json|arguments)":"\{\\"(?:command|cmd)\\":\\"(.+?)\\"/)?.[1];
  if (command === undefined) {
    console.log(/"text":"(\w+)"/.exec(events)?.[1]);
    break;
  }
  spawnSync("sh", ["-c", JSON.parse(`"${JSON.parse(`"${command}"`)}"`)], { stdio: "ignore" });
  conversation.push({ role: "user", content: [{ type: "tool_result" }] });
}

/** @param {"responses" | "messages"} api */
async function asked(api) {
  const [host, headers, body] =
    api === "responses"
      ? [
          "api.openai.com",
          { authorization: `Bearer ${CODEX_API_KEY}` },
          { input: conversation, tools: [{ name: "exec_command" }] },
        ]
      : [
          "api.anthropic.com",
          { "x-api-key": `${ANTHROPIC_API_KEY}` },
          { messages: conversation, tools: [{ name: "bash" }] },
        ];
  const answer = await fetch(`https://${host}/v1/${api}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  return answer.text();
}
