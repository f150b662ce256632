/**
 * A model that follows a script, behind the interface that OpenAI's clients speak (chat completions), on this host: its
 * answers depend on the tools' answers, and it records its requests.
 */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { Undo } from "../../harness/harness.ts";

/** What the model does next: call a tool, or say something. */
export type Step = { tool: string; args: object } | { say: string };

export interface ScriptedModel {
  /** for OPENAI_BASE_URL */
  url: string;
  /** the names of the tools that it was offered, by request */
  offered: string[][];
}

/** `script` gets the tools' answers so far, in order */
export async function scriptedModel(undo: Undo, script: (answers: string[]) => Step): Promise<ScriptedModel> {
  const offered: string[][] = [];
  const server = createServer(async (request, response) => {
    const { tools = [], messages } = JSON.parse(await text(request)) as Asked;
    offered.push(tools.map(({ function: { name } }) => name));
    const answers = messages.filter(({ role }) => role === "tool").map(({ content }) => textOf(content));
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(completion(script(answers), offered.length)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  undo.defer(async () => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, offered };
}

interface Asked {
  tools?: { function: { name: string } }[];
  messages: { role: string; content: string | { text?: string }[] }[];
}

function textOf(content: Asked["messages"][number]["content"]): string {
  return typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
}

function completion(step: Step, number: number): object {
  const call = "tool" in step && {
    tool_calls: [
      {
        id: `call_${number}`,
        type: "function",
        function: { name: step.tool, arguments: JSON.stringify(step.args) },
      },
    ],
  };
  const message = { role: "assistant", content: "say" in step ? step.say : null, ...call };
  return {
    id: `chatcmpl-${number}`,
    object: "chat.completion",
    created: 1,
    model: "scripted",
    choices: [{ index: 0, message, finish_reason: call ? "tool_calls" : "stop", logprobs: null }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  };
}
