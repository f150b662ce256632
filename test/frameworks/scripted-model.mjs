/** A model for the AI SDK that follows a script instead of thinking: it calls these tools one by one, then says "done". */

import { MockLanguageModelV4 } from "ai/test";

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** `script`: the calls in order, each `{ tool, args }` */
export function scriptedModel(script) {
  let step = 0;
  return new MockLanguageModelV4({
    doGenerate: async () => {
      const call = script[step++];
      const content = call
        ? { type: "tool-call", toolCallId: `call_${step}`, toolName: call.tool, input: JSON.stringify(call.args) }
        : { type: "text", text: "done" };
      const unified = call ? "tool-calls" : "stop";
      return { content: [content], finishReason: { unified, raw: unified }, usage, warnings: [] };
    },
  });
}

/** what the tools answered, in order */
export function toolAnswers({ steps }) {
  return steps.flatMap(({ toolResults }) => toolResults.map(({ output }) => output));
}
