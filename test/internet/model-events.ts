/** A model's turn as the events that clients of two APIs read: "messages" and "responses". */

/** What a model does in a turn: calls a tool with members or with a text, or says something. */
export type Turn = { tool: string; input: object | string } | { say: string };

interface ServerEvent {
  type: string;
  [member: string]: unknown;
}

const usage = { input_tokens: 1, output_tokens: 1 };

/** the events of POST /v1/messages */
export function messageEvents(turn: Turn, number: number): ServerEvent[] {
  const message = { id: `msg_${number}`, type: "message", role: "assistant", model: "scripted", content: [] };
  const [block, delta] =
    "tool" in turn
      ? [
          { type: "tool_use", id: `toolu_${number}`, name: turn.tool, input: {} },
          { type: "input_json_delta", partial_json: JSON.stringify(turn.input) },
        ]
      : [
          { type: "text", text: "" },
          { type: "text_delta", text: turn.say },
        ];
  return [
    { type: "message_start", message: { ...message, stop_reason: null, stop_sequence: null, usage } },
    { type: "content_block_start", index: 0, content_block: block },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    {
      type: "message_delta",
      delta: { stop_reason: "tool" in turn ? "tool_use" : "end_turn", stop_sequence: null },
      usage,
    },
    { type: "message_stop" },
  ];
}

/** the events of POST /v1/responses */
export function responseEvents(turn: Turn, number: number): ServerEvent[] {
  const id = `resp_${number}`;
  const call = { id: `fc_${number}`, call_id: `call_${number}`, status: "completed" };
  const item =
    "tool" in turn
      ? typeof turn.input === "string"
        ? { type: "custom_tool_call", ...call, name: turn.tool, input: turn.input }
        : { type: "function_call", ...call, name: turn.tool, arguments: JSON.stringify(turn.input) }
      : {
          type: "message",
          id: `msg_${number}`,
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: turn.say, annotations: [] }],
        };
  const response = { id, object: "response", created_at: 1, model: "scripted", output: [] as object[] };
  const total = { ...usage, total_tokens: 2 };
  const events: ServerEvent[] = [
    { type: "response.created", response: { ...response, status: "in_progress" } },
    { type: "response.output_item.added", output_index: 0, item: { ...item, status: "in_progress" } },
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response: { ...response, status: "completed", output: [item], usage: total } },
  ];
  return events.map((event, sequence_number) => ({ ...event, sequence_number }));
}
