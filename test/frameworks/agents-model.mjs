/** A model for OpenAI's Agents SDK that follows a script: it calls these tools one by one, then says "done". */

import { Usage } from "@openai/agents";

/** `script`: the calls in order, each `{ tool, args }` */
export function agentsModel(script) {
  let step = 0;
  return {
    async getResponse() {
      const call = script[step++];
      const item = call
        ? { type: "function_call", callId: `call_${step}`, name: call.tool, arguments: JSON.stringify(call.args) }
        : { type: "message", role: "assistant", content: [{ type: "output_text", text: "done" }] };
      return { usage: new Usage(), output: [{ ...item, status: "completed" }] };
    },
  };
}
